package sim

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Two legs: a second network that carries the same packets, with faults of its own.

// legs gives a run a second leg. Some subscribers have only one of the legs. One leg is cut,
// perhaps for long, since the other one remains.
func (d drawer) legs(o *Options) {
	if !d.chance(25) {
		return
	}
	second := d.net()
	o.Second = &second
	for i := range o.Subscribers {
		if d.chance(30) {
			o.Subscribers[i].Only = d.between(1, 2)
		}
	}
	if d.chance(50) {
		o.Cuts = append(o.Cuts, Cut{
			At: d.time(100*time.Microsecond, o.Faults), For: d.time(time.Millisecond, 3*time.Second), Leg: d.between(1, 2),
			Publisher: -1, Subscribers: 1<<len(o.Subscribers) - 1, Up: true, Down: true,
		})
	}
}

// noData lets a leg drop all data for a while, as shared memory does when it is full.
func (d drawer) noData(o *Options) {
	if o.Second == nil || !d.chance(50) {
		return
	}
	leg := d.between(1, 2)
	if d.chance(50) {
		o.Cuts = append(o.Cuts, Cut{
			At: d.time(100*time.Microsecond, o.Faults), For: d.time(time.Millisecond, 3*time.Second), Leg: leg,
			Publisher: -1, Subscribers: 1<<len(o.Subscribers) - 1, Data: true, Down: true,
		})
	}
}

// isData reports whether b is a data packet.
func isData(b []byte) bool { return len(b) > 3 && wire.Type(b[3]) == wire.TypeData }

// openSecond creates the second network, if there is one.
func (s *sim) openSecond() {
	if s.o.Second == nil {
		return
	}
	n := s.net
	n.o, n.leg, n.count = s.o.Second, 1, netStats{}
	n.shared, n.own, n.routes = make([]bool, len(n.shared)), make([]bool, len(n.own)), make([]route, len(n.routes))
	n.hops = slices.Clone(n.hops)
	s.second = &n
}

// networks returns the networks of all legs.
func (s *sim) networks() []*network {
	if s.second == nil {
		return []*network{&s.net}
	}
	return []*network{&s.net, s.second}
}

// longest returns the longest time that a packet may take.
func (s *sim) longest() (d time.Duration) {
	for _, n := range s.networks() {
		d = max(d, n.longest())
	}
	return d
}

// multicast sends on all legs. It reports the subscribers that lost the packet on all their legs.
func (s *sim) multicast(leaves reliable.Instant, publisher int, b []byte) (lost uint64) {
	lost = s.net.multicast(s.now, leaves, publisher, b)
	if s.second == nil {
		return lost
	}
	of := [2]uint64{lost, s.second.multicast(s.now, leaves, publisher, b)}
	lost = 0
	for i, x := range s.subscribers {
		if bit := uint64(1) << i; (of[0]&bit != 0 || !x.on(0)) && (of[1]&bit != 0 || !x.on(1)) {
			lost |= bit
		}
	}
	return lost
}

// on reports whether the subscriber has that leg.
func (s *subscriber) on(leg int) bool {
	return s.sim.second == nil || s.o.Only == 0 || s.o.Only == 1+leg
}

// legAddresses is the difference between the addresses of a publisher on its legs.
const legAddresses = 1 << 10

// address returns the address of a publisher on a leg; addressed is its inverse.
func address(publisher, leg int) uint64 { return uint64(publisher + leg*legAddresses) }

func addressed(from uint64) (publisher, leg int) {
	if from >= attackerAddress {
		return attackerAddress, 0
	}
	return int(from % legAddresses), int(from / legAddresses)
}

// leg returns the leg on which the packet arrived.
func (p *packet) leg() int {
	_, leg := addressed(p.from)
	return leg
}

// legState is what a subscriber with legs has received on each, for the checks.
type legState struct {
	newest    map[*truth]uint64              // time of the newest heartbeat, by the publisher's clock
	beat      map[*truth][2]reliable.Instant // when each leg delivered the newest heartbeat
	before    map[*truth][2]reliable.Instant // as beat, before this turn of the loop
	down      map[*truth][2]bool             // reported silent
	requested map[*truth]map[uint64]bool     // requested packets
}

// record records the leg on which a heartbeat arrives.
func (x *legState) record(s *sim, leg int, b []byte) {
	h, err := wire.ParseHeader(b)
	if err != nil || h.Type != wire.TypeHeartbeat {
		return
	}
	hb, err := wire.ParseHeartbeat(b)
	t := s.truth(h.Instance())
	if err != nil || t == nil || hb.SentAt < x.newest[t] {
		return
	}
	if x.newest == nil {
		x.newest = make(map[*truth]uint64)
		x.beat, x.before = make(map[*truth][2]reliable.Instant), make(map[*truth][2]reliable.Instant)
	}
	at, before := x.beat[t], x.before[t]
	if at[leg] != s.now {
		before[leg] = at[leg]
	}
	x.newest[t], at[leg] = hb.SentAt, s.now
	x.beat[t], x.before[t] = at, before
}

// leg checks an event of a leg. A leg that is reported silent must have delivered nothing for a
// while, and one that is reported active again must have been reported silent. docs/protocol §23.7.
func (s *subscriber) leg(of events.Instance, e *events.Event) {
	silent, leg := e.Kind == events.LegDown, slices.Index(groupAddresses[:], e.Leg)
	s.sim.trace("subscriber %d: stream %v.%d: leg %d silent: %v", s.number, of.Publisher, of.Epoch, leg, silent)
	t := s.sim.truth(of)
	if t == nil || s.sim.o.Attack.Every > 0 {
		return // an attacker that forges heartbeats, or moves them between legs, can cause this
	}
	if s.legs.down == nil {
		s.legs.down = make(map[*truth][2]bool)
	}
	down := s.legs.down[t]
	beat := s.legs.beat[t][leg]
	if beat == s.sim.now { // the loop has read its legs, but may have passed on only one
		beat = s.legs.before[t][leg]
	}
	switch d := s.sim.now.Sub(beat); {
	case down[leg] == silent:
		s.sim.fail("subscriber %d: same state of leg %d reported twice: silent %v", s.number, leg, silent)
	case silent && d < minSilence:
		s.sim.fail("subscriber %d: leg %d is reported silent, but delivered a heartbeat %v ago", s.number, leg, d)
	case silent:
		s.sim.report.LegsDown++
	default:
		s.sim.report.LegsBack++
	}
	down[leg] = silent
	s.legs.down[t] = down
}

// minSilence is that of docs/protocol §23.7, without a heartbeat interval.
const minSilence = 100 * time.Millisecond

// countRequests counts the packets that a subscriber with legs requests.
func (s *subscriber) countRequests(b []byte) {
	if s.sim.second == nil || s.o.Only != 0 || wire.Type(b[3]) != wire.TypeNAK {
		return
	}
	h, err := wire.ParseHeader(b)
	t := s.sim.truth(h.Instance())
	n, err2 := wire.ParseRanges(b)
	if err != nil || err2 != nil || t == nil {
		return
	}
	if s.legs.requested == nil {
		s.legs.requested = make(map[*truth]map[uint64]bool)
	}
	if s.legs.requested[t] == nil {
		s.legs.requested[t] = make(map[uint64]bool)
	}
	for first, count, ok := n.Next(); ok; first, count, ok = n.Next() {
		for seq := first; seq < min(first+count, uint64(len(t.lost))); seq++ {
			if s.legs.requested[t][seq] {
				continue
			}
			s.legs.requested[t][seq] = true
			s.sim.report.Requested++
			if t.lost[seq]&(1<<s.number) == 0 {
				s.sim.report.RequestedEarly++
			}
		}
	}
}

package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fanfaremq/fanfare/internal/discovery"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// runHellos runs some buses that send hellos to each other, with equal or different configurations, over a network
// that loses, duplicates and delays packets, and restarts some of them. It checks that each reports exactly those
// that it cannot receive, once each, and that none sends or stores more than docs/protocol §14 permits.
func runHellos(seed uint64) error {
	w := &helloWorld{rng: rand.New(rand.NewPCG(seed, 0x4e110)), now: reliable.Instant(time.Hour)}
	w.loss = w.rng.Float64() / 2
	for i := range 2 + w.rng.IntN(6) {
		b := &helloBus{w: w, index: i}
		b.draw()
		w.buses = append(w.buses, b)
		w.after(time.Duration(w.rng.Int64N(int64(20*time.Second))), b.begin)
		if w.rng.IntN(3) == 0 {
			w.after(helloFaults/2+time.Duration(w.rng.Int64N(int64(20*time.Second))), b.restart)
		}
	}
	w.after(helloFaults, func() { w.loss = 0 })
	for end := w.now.Add(helloRun); w.err == nil && len(w.queue) > 0 && w.queue[0].at < end; {
		e := heap.Pop(&w.queue).(helloEvent)
		w.now = e.at
		e.do()
	}
	for _, b := range w.buses {
		b.judge()
	}
	if w.err != nil {
		return fmt.Errorf("seed %d, at %v: %w", seed, w.now.Sub(reliable.Instant(time.Hour)), w.err)
	}
	return nil
}

const (
	// helloFaults is the duration of the network's faults, helloRun that of a run: long enough for
	// some further searches, which are half a minute apart.
	helloFaults = 2 * time.Minute
	helloRun    = 5 * time.Minute
)

// helloWorld is a run's buses, network and time.
type helloWorld struct {
	rng   *rand.Rand
	now   reliable.Instant
	loss  float64
	queue helloQueue
	turn  int
	buses []*helloBus
	err   error
}

func (w *helloWorld) after(d time.Duration, do func()) {
	w.turn++
	heap.Push(&w.queue, helloEvent{w.now.Add(d), w.turn, do})
}

func (w *helloWorld) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// carry delivers a packet to a bus, never, once or twice.
func (w *helloWorld) carry(from, to *helloBus, p []byte, unicast bool) {
	for range 1 + w.rng.IntN(2)*w.rng.IntN(2) {
		if w.rng.Float64() < w.loss {
			continue
		}
		w.after(time.Duration(1+w.rng.Int64N(int64(5*time.Millisecond))), func() { to.arrive(from, p, unicast) })
	}
}

type helloEvent struct {
	at   reliable.Instant
	turn int
	do   func()
}

type helloQueue []helloEvent

func (q helloQueue) Len() int { return len(q) }
func (q helloQueue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].turn < q[j].turn
}
func (q helloQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *helloQueue) Push(x any)   { *q = append(*q, x.(helloEvent)) }
func (q *helloQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	*q = (*q)[:last]
	return e
}

// helloBus is one bus: a discovery.Greeter, and the state of the checks.
type helloBus struct {
	w      *helloWorld
	index  int
	epoch  uint64
	fabric discovery.Fabric
	other  bool   // it uses another version of the protocol
	tag    uint32 // hash of its address

	published, subscribed []int // topics
	g                     *discovery.Greeter
	life                  int
	reported              map[events.Instance]int
	received              map[uint64]int                // hellos received, by id
	answered              map[uint64][]reliable.Instant // by id
	peers                 map[uint32]int
	since                 reliable.Instant
	armed                 reliable.Instant // when its timer fires
}

func (b *helloBus) draw() {
	r := b.w.rng
	b.fabric = discovery.Fabric{Groups: 16, PacketSize: 1472, MaxPacket: 4096}
	b.tag = 1
	switch r.IntN(8) {
	case 0, 1, 2:
		b.fabric.Groups = 64
	case 3:
		b.fabric.Mapping = wire.Mapping{Kind: wire.MappingPrefix, Param: uint16(1 + r.IntN(2))}
	case 6:
		b.fabric.PacketSize = 512
	case 4:
		b.tag = 2
	case 5:
		b.other = true
	}
	for t := range 4 {
		if r.IntN(3) == 0 {
			b.published = append(b.published, t)
		} else if r.IntN(2) == 0 {
			b.subscribed = append(b.subscribed, t)
		}
	}
	b.reported, b.received = make(map[events.Instance]int), make(map[uint64]int)
}

func (b *helloBus) id() uint64 { return uint64(b.index + 1) }

func (b *helloBus) instance() events.Instance {
	return events.Instance{Publisher: events.ID(b.id()), Epoch: events.ID(b.epoch)}
}

func (b *helloBus) begin() {
	b.life++
	b.epoch++
	b.armed = 0
	b.peers, b.answered = make(map[uint32]int), make(map[uint64][]reliable.Instant)
	b.received, b.reported = make(map[uint64]int), make(map[events.Instance]int)
	b.g = discovery.New(discovery.Config{
		Self: b.instance(), Name: fmt.Sprint("bus/", b.index), GroupTag: b.tag, Fabric: b.fabric, Rand: b.w.rng,
	}, b)
	if len(b.published) > 0 {
		b.g.Publishes(b.w.now)
	}
	if len(b.subscribed) > 0 {
		b.g.Wants(b.w.now)
	}
	b.wake(b.life)
}

func (b *helloBus) restart() {
	b.g.Close()
	if len(b.peers) > 0 {
		b.w.fail("bus %d keeps peers %v when it has ended", b.index, b.peers)
	}
	b.g = nil
	b.life++
	b.w.after(time.Second, b.begin)
}

// wake processes what is due, and schedules itself at the deadline.
func (b *helloBus) wake(life int) {
	if life != b.life || b.g == nil {
		return
	}
	b.act()
	switch d := b.g.Deadline(); {
	case d <= b.w.now:
		b.w.fail("bus %d never sleeps: its deadline stays in the past", b.index)
	case d < b.armed || b.armed <= b.w.now:
		b.armed = d
		b.w.after(d.Sub(b.w.now), func() {
			if b.armed == d {
				b.wake(life)
			}
		})
	}
}

func (b *helloBus) act() {
	was := b.g.Searching()
	b.g.Tick(b.w.now)
	switch is := b.g.Searching(); {
	case is && !was:
		b.since = b.w.now
		if !b.PublisherMissing() {
			b.w.fail("bus %d searches, but has all publishers", b.index)
		}
	case was && !is:
		if d := b.w.now.Sub(b.since); d > 2100*time.Millisecond {
			b.w.fail("bus %d searched for %v", b.index, d)
		}
	}
	for {
		peer, p, ok := b.g.Next(b.w.now, nil)
		if !ok {
			return
		}
		if b.other {
			p[2] = wire.Version + 1
		}
		if peer != 0 {
			to := b.w.buses[peer-1]
			b.answer(to)
			b.w.carry(b, to, p, true)
			continue
		}
		for _, to := range b.w.buses {
			if to != b {
				b.w.carry(b, to, p, false)
			}
		}
	}
}

// answer checks that a bus gets no more answers than it is entitled to.
func (b *helloBus) answer(to *helloBus) {
	all := append(b.answered[to.id()], b.w.now)
	b.answered[to.id()] = all
	if n := len(all); n > b.received[to.id()] {
		b.w.fail("bus %d answers bus %d %d times, but received %d hellos", b.index, to.index, n, b.received[to.id()])
	} else if n > 1 && to.life == 1 && all[n-1].Sub(all[n-2]) < time.Second {
		b.w.fail("bus %d answers bus %d again after %v", b.index, to.index, all[n-1].Sub(all[n-2]))
	}
	if !b.apart(to) {
		b.w.fail("bus %d answers bus %d, which has the same configuration", b.index, to.index)
	}
}

// arrive delivers a packet, if the bus is open and listens.
func (b *helloBus) arrive(from *helloBus, p []byte, unicast bool) {
	if b.g == nil || !unicast && !b.g.Searching() {
		return
	}
	q := append([]byte(nil), p...)
	if b.other && q[2] == wire.Version+1 {
		q[2] = wire.Version // to itself, its own version is the right one
	} else if b.other {
		q[2] = wire.Version + 1
	}
	b.received[from.id()]++
	if unicast {
		b.g.Answer(from.id(), b.w.now, q)
	} else {
		b.g.Hello(from.id(), b.w.now, q)
	}
	b.wake(b.life)
}

// differs reports whether two buses have different configurations, apart whether they cannot receive each other.
func (b *helloBus) differs(to *helloBus) bool {
	return b.apart(to) || b.fabric != to.fabric && b.tag == to.tag
}

func (b *helloBus) apart(to *helloBus) bool {
	return b.tag == to.tag &&
		(b.other != to.other || b.fabric.Groups != to.fabric.Groups || b.fabric.Mapping != to.fabric.Mapping)
}

// judge checks at the end that each bus has reported exactly the expected ones.
func (b *helloBus) judge() {
	for _, to := range b.w.buses {
		n := b.reported[to.instance()]
		switch {
		case n > 1:
			b.w.fail("bus %d reported bus %d %d times", b.index, to.index, n)
		case n > 0 && !b.differs(to):
			b.w.fail("bus %d reported bus %d, which has the same configuration", b.index, to.index)
		case n == 0 && b.apart(to) && len(to.published) > 0 && b.PublisherMissing():
			b.w.fail("bus %d lacks a publisher, but did not report bus %d", b.index, to.index)
		case n == 0 && b.apart(to) && len(b.published) > 0 && to.PublisherMissing():
			b.w.fail("bus %d did not report bus %d, which cannot receive it", b.index, to.index)
		}
	}
}

// Methods that the greeter calls.

func (b *helloBus) filter(topics []int) (int, wire.TopicFilter) {
	var f wire.TopicFilter
	for _, t := range topics {
		f.Add(allTopicIDs[t])
	}
	return len(topics), f
}

// Published implements discovery.Bus.
func (b *helloBus) Published() (int, wire.TopicFilter) { return b.filter(b.published) }

// Subscribed implements discovery.Bus.
func (b *helloBus) Subscribed() (int, wire.TopicFilter) { return b.filter(b.subscribed) }

// Relevant implements discovery.Bus.
func (b *helloBus) Relevant(*wire.TopicFilter, bool) bool { return true }

// Waits implements discovery.Bus.
func (b *helloBus) Waits() bool { return b.index%2 == 0 }

// PublisherMissing implements discovery.Bus.
func (b *helloBus) PublisherMissing() bool {
	for _, t := range b.subscribed {
		if !b.reached(t) {
			return true
		}
	}
	return false
}

// reached reports whether a reachable bus publishes t.
func (b *helloBus) reached(t int) bool {
	for _, from := range b.w.buses {
		if from == b || from.g == nil || from.tag != b.tag || from.apart(b) {
			continue
		}
		for _, p := range from.published {
			if p == t {
				return true
			}
		}
	}
	return false
}

// Mismatch implements discovery.Bus.
func (b *helloBus) Mismatch(err *events.ConfigMismatchError, from uint64, _ bool) {
	if from != uint64(err.Publisher) {
		b.w.fail("bus %d reported bus %d because of a packet of bus %d", b.index, err.Publisher-1, from-1)
	}
	b.reported[events.Instance{Publisher: err.Publisher, Epoch: err.Epoch}]++
}

// Unreachable implements discovery.Bus.
func (b *helloBus) Unreachable(err *events.ConfigMismatchError, _ *wire.TopicFilter) {
	if len(b.published) == 0 || !b.apart(b.w.buses[err.Publisher-1]) {
		b.w.fail("bus %d: bus %d answered that it cannot receive this bus", b.index, err.Publisher-1)
	}
}

// Retain implements reliable.Peers.
func (b *helloBus) Retain(from uint64) (uint32, bool) {
	b.peers[uint32(from)]++
	return uint32(from), true
}

// Forget implements reliable.Peers.
func (b *helloBus) Forget(p uint32) {
	if b.peers[p]--; b.peers[p] == 0 {
		delete(b.peers, p)
	}
}

package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// sim is one run.
type sim struct {
	o           *Options
	now         reliable.Instant
	q           queue
	pool        packets
	net         network
	second      *network // the second leg, or nil
	arena       arena
	publishers  []*publisher
	subscribers []*subscriber
	attacker    *attacker
	truths      []*truth
	stays       map[uint64]*wantedTopics // by id of the receiver
	unread      map[uint64]bool          // receivers of which all readers were evicted
	script      []func()
	unused      []uint32         // free indexes of script
	firstData   reliable.Instant // when the first new packet was sent
	lastData    reliable.Instant // when the last new packet was sent
	report      *Report
	unpacker    wire.Unpacker // for all codecs of the run's publishers
	err         error
}

// groupTag is the tag of the group on the first leg.
var groupTag = wire.GroupTag(groupAddresses[0])

// topicNames are the topics of all publishers: each has a prefix of the list.
var topicNames, allTopicIDs = func() (names []string, ids []uint64) {
	for i := range 16 {
		// long enough that announcing all of them takes several packets
		names = append(names, fmt.Sprintf("sim.%s.topic-with-a-name-that-takes-some-room.%d", [...]string{"even", "odd"}[i%2], i))
		ids = append(ids, wire.TopicID(names[i]))
	}
	return names, ids
}()

// MaxTopics is the maximum number of a publisher's topics.
const MaxTopics = 16

// maxEvents limits a run: a core that sends without end is an error.
const maxEvents = 50_000_000

// failure is the error of a run.
type failure struct {
	At      time.Duration // virtual time
	What    string
	Options Options
}

func (f *failure) Error() string {
	return fmt.Sprintf("sim: at %v: %s\n%v", f.At, f.What, f.Options)
}

// Run runs o and returns the results. The error is a *Failure.
func Run(o Options) (*Report, error) {
	s := newSim(&o)
	s.start()
	for s.err == nil {
		e, ok := s.q.pop()
		if !ok {
			s.fail("no event is left, but the run has not ended")
			break
		}
		s.now = e.at
		s.report.Events++
		if s.report.Events > maxEvents {
			s.fail("more than %d events", maxEvents)
			break
		}
		if !s.handle(e) {
			break
		}
	}
	s.close()
	return s.report, s.err
}

func newSim(o *Options) *sim {
	rng := rand.New(rand.NewPCG(o.Seed, 0x5eed))
	s := &sim{o: o, report: &Report{},
		stays: make(map[uint64]*wantedTopics), unread: make(map[uint64]bool),
		unpacker: o.Content.unpacker(), now: 1, firstData: reliable.Never}
	p, n := len(o.Publishers), len(o.Subscribers)
	s.net = network{
		o: &o.Net, rng: rng, q: &s.q, pool: &s.pool, soundAt: reliable.Instant(o.Faults), subs: n, drop: o.Drop,
		shared: make([]bool, p), own: make([]bool, n), routes: make([]route, p*n),
	}
	for i := range o.Subscribers {
		s.net.hops = append(s.net.hops, hop{Location: &o.Subscribers[i].Location})
	}
	s.openSecond()
	for i := range o.Publishers {
		id := events.ID(rng.Uint64() | 1)
		if as := o.Publishers[i].As; as > 0 {
			id = s.publishers[as-1].id
		} else if o.Sealing != nil {
			id = o.Sealing.ID(i, id)
		}
		s.publishers = append(s.publishers, &publisher{process: s.newProcess(i), o: &o.Publishers[i], id: id})
	}
	for i := range o.Subscribers {
		s.subscribers = append(s.subscribers,
			&subscriber{process: s.newProcess(p + i), number: i, o: &o.Subscribers[i]})
	}
	return s
}

// start schedules the steps that the options define.
func (s *sim) start() {
	for _, p := range s.publishers {
		if len(p.o.Lives) == 0 {
			p.gone = true
			continue
		}
		s.at(p.o.Lives[0].After, p.beginLife)
		if p.o.Queries > 0 {
			s.at(p.o.Queries, p.query)
		}
	}
	for _, x := range s.subscribers {
		if len(x.o.Stays) == 0 {
			x.gone = true
			continue
		}
		s.at(x.o.Stays[0].After, x.beginStay)
		for _, pause := range x.o.Pauses {
			s.at(pause.At, func() { x.freeze(pause.For) })
		}
	}
	for _, c := range s.o.Cuts {
		s.at(c.At, func() { s.cut(c, +1) })
		s.at(c.At+c.For, func() { s.cut(c, -1) })
	}
	for _, f := range s.o.Freezes {
		s.at(f.At, func() { s.freeze(f) })
	}
	if s.o.Attack.Every > 0 {
		s.attacker = newAttacker(s)
		s.net.tap = s.attacker.capture
		s.q.push(event{at: s.now, kind: attack})
	}
	s.watch()
}

// at schedules f.
func (s *sim) at(d time.Duration, f func()) { s.schedule(d, script, 0, f) }

// schedule schedules f as an event of a node.
func (s *sim) schedule(d time.Duration, kind eventKind, node int16, f func()) {
	i := len(s.script)
	if n := len(s.unused); n > 0 {
		i, s.unused = int(s.unused[n-1]), s.unused[:n-1]
		s.script[i] = f
	} else {
		s.script = append(s.script, f)
	}
	s.q.push(event{at: s.now.Add(d), kind: kind, node: node, arg: uint32(i)})
}

func (s *sim) cut(c Cut, by int) {
	for p := range s.publishers {
		if c.Publisher >= 0 && c.Publisher != p {
			continue
		}
		for i := range s.subscribers {
			if c.Subscribers&(1<<i) == 0 {
				continue
			}
			for leg, n := range s.networks() {
				if c.Leg > 0 && c.Leg != 1+leg {
					continue
				}
				l := &n.routes[p*len(s.subscribers)+i]
				switch {
				case c.Data:
					l.cutData += by
				case c.Down:
					l.cutDown += by
				}
				if c.Up {
					l.cutUp += by
				}
			}
		}
	}
}

// handle processes e. It reports false when the run is over.
func (s *sim) handle(e event) bool {
	if s.frozen(e) {
		return true
	}
	switch e.kind {
	case atPublisher:
		s.publishers[e.node].arrive(e.p, true)
	case atSubscriber:
		s.subscribers[e.node].arrive(e.p, false)
	case timer:
		s.process(int(e.node)).timer(e)
	case flush:
		s.networks()[e.node].flush(s.now, e)
	case script, alarm:
		f := s.script[e.arg]
		s.script[e.arg], s.unused = nil, append(s.unused, e.arg)
		f()
	case attack:
		s.attacker.act()
	}
	return !s.report.done
}

func (s *sim) truth(of events.Instance) *truth {
	for _, t := range s.truths {
		if t.Instance == of {
			return t
		}
	}
	return nil
}

// silent records that a publisher has released a subscriber because it was silent.
func (s *sim) silent(p *publisher, id uint64) {
	s.trace("publisher %d releases subscriber %#x", p.index, id)
	s.report.Silent++
	if m := p.t.members[id]; m != nil {
		m.left, m.returned = true, false
	}
}

func (s *sim) fail(format string, args ...any) {
	if s.err == nil {
		s.err = &failure{At: time.Duration(s.now), What: fmt.Sprintf(format, args...), Options: *s.o}
		s.trace("FAILED: "+format, args...)
	}
}

// arena allocates zeroed memory in large blocks.
type arena struct{ free []byte }

func (a *arena) get(n int) []byte {
	if n > len(a.free) {
		if n > 64<<10 {
			return make([]byte, n)
		}
		a.free = make([]byte, 256<<10)
	}
	b := a.free[:n:n]
	a.free = a.free[n:]
	return b
}

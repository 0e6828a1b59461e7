package sim

import (
	"math/rand/v2"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// network carries packets from publishers to all subscribers, and from subscribers and the attacker to one node.
type network struct {
	o       *Net
	rng     *rand.Rand
	q       *queue
	pool    *packets
	soundAt reliable.Instant // end of all faults
	subs    int
	// Current runs of losses: shared by all receivers of a publisher, and at one receiver.
	shared, own []bool
	routes      []route // publisher*subs + subscriber
	hops        []hop   // to each subscriber
	leg         int
	count       netStats
	tap         func(p *packet) // called with each packet, for the attacker
	drop        func(subscriber int, packet []byte) bool
}

// netStats counts what the network did with packets. A packet sent to n receivers counts n times.
type netStats struct {
	Packets    uint64 // sent
	Copies     uint64 // sent to a receiver
	Dropped    uint64
	Congested  uint64 // dropped at a full queue of a link
	Duplicated uint64
	Reordered  uint64
	Overflowed uint64 // dropped at a full receive buffer
	Unicast    uint64
}

// route is the path from one publisher to one subscriber.
type route struct {
	last     reliable.Instant // arrival of the last packet sent in order
	held     []held
	flushing bool
	cutDown  int // cuts in force
	cutData  int
	cutUp    int
}

// hop is the last hop on the path to a subscriber.
type hop struct {
	*Location
	free reliable.Instant // when the link has sent its queue
}

// pass sends size bytes that arrive at time at across the link, and returns when they leave it. It
// reports false if the queue is full.
func (h *hop) pass(at reliable.Instant, size int) (through reliable.Instant, ok bool) {
	if h.Link.Rate == 0 {
		return at, true
	}
	duration := func(bytes int64) time.Duration { return time.Duration(bytes * int64(time.Second) / h.Link.Rate) }
	wait := max(0, h.free.Sub(at))
	if wait > duration(h.Link.Queue) {
		return 0, false
	}
	h.free = at.Add(wait + duration(int64(size+headers)))
	return h.free, true
}

// headers is the size of the headers of Ethernet, IP and UDP.
const headers = 14 + 20 + 8

// held is a packet held back so that later ones overtake it.
type held struct {
	p    *packet
	left int
}

// holdMax is the longest time that a packet is held back.
const holdMax = time.Millisecond

func (n *network) draw(r Ratio) bool { return r > 0 && Ratio(n.rng.Uint32N(uint32(Always))) < r }

// lose decides whether a packet is lost, in runs with mean length run.
func (n *network) lose(bad *bool, loss Ratio, run int) bool {
	if loss == 0 {
		return false
	}
	if run <= 1 {
		return n.draw(loss)
	}
	if *bad {
		*bad = !n.draw(Always / Ratio(run))
	} else {
		// the frequency that yields the configured share of losses
		enter := uint64(loss) * uint64(Always) / (uint64(run) * uint64(Always-min(loss, Always-1)))
		*bad = n.draw(Ratio(min(enter, uint64(Always))))
	}
	return *bad
}

// multicast sends b from a publisher to all subscribers. It returns the set of those that lost it, a bit each.
func (n *network) multicast(now, leaves reliable.Instant, publisher int, b []byte) (lost uint64) {
	n.count.Packets++
	p := n.pool.get(b, address(publisher, n.leg))
	if n.tap != nil {
		n.tap(p)
	}
	faulty := now < n.soundAt
	gone := faulty && n.lose(&n.shared[publisher], n.o.SharedLoss, n.o.Run)
	for s := range n.subs {
		l := &n.routes[publisher*n.subs+s]
		n.count.Copies++
		if gone || l.cutDown > 0 || l.cutData > 0 && isData(b) || n.drop != nil && n.drop(s, b) ||
			faulty && n.lose(&n.own[s], n.o.Loss, n.o.Run) {
			n.count.Dropped++
			lost |= 1 << s
			continue
		}
		through, ok := n.hops[s].pass(leaves, len(b))
		if !ok {
			n.count.Congested++
			lost |= 1 << s
			continue
		}
		n.down(now, through, l, s, p, faulty)
		if faulty && n.draw(n.o.Duplicate) {
			n.count.Duplicated++
			n.down(now, leaves.Add(n.upTo(2*n.o.Latency)), l, s, p, true)
		}
	}
	n.pool.drop(p)
	return lost
}

func (n *network) down(now, leaves reliable.Instant, l *route, s int, p *packet, faulty bool) {
	p.refs++
	if faulty && n.draw(n.o.Reorder) {
		n.count.Reordered++
		l.held = append(l.held, held{p, 1 + n.rng.IntN(max(1, n.o.ReorderDepth))})
		if !l.flushing {
			l.flushing = true
			n.q.push(event{at: leaves.Add(n.o.Latency + holdMax), kind: flush, node: int16(n.leg), arg: n.routeIndex(l)})
		}
		return
	}
	at := max(l.last, leaves.Add(n.latency(now, s)+n.upTo(n.o.Jitter)))
	l.last = at
	if faulty {
		at = at.Add(n.upTo(n.o.Scatter))
	}
	n.q.push(event{at: at, kind: atSubscriber, node: int16(s), p: p})
	for i := 0; i < len(l.held); {
		h := &l.held[i]
		if h.left--; h.left > 0 {
			i++
			continue
		}
		n.q.push(event{at: at, kind: atSubscriber, node: int16(s), p: h.p})
		l.held = append(l.held[:i], l.held[i+1:]...)
	}
}

func (n *network) routeIndex(l *route) uint32 {
	for i := range n.routes {
		if &n.routes[i] == l {
			return uint32(i)
		}
	}
	panic("sim: unknown route")
}

// flush delivers held packets that were not overtaken.
func (n *network) flush(now reliable.Instant, e event) {
	l := &n.routes[e.arg]
	l.flushing = false
	for _, h := range l.held {
		n.q.push(event{at: now, kind: atSubscriber, node: int16(int(e.arg) % n.subs), p: h.p})
	}
	l.held = l.held[:0]
}

// unicast sends b from a subscriber to a publisher.
func (n *network) unicast(now reliable.Instant, subscriber, publisher int, b []byte) {
	n.count.Unicast++
	l := &n.routes[publisher*n.subs+subscriber]
	faulty := now < n.soundAt
	if l.cutUp > 0 || faulty && n.draw(n.o.UnicastLoss) {
		return
	}
	copies := 1
	if faulty && n.draw(n.o.Duplicate) {
		copies = 2
	}
	for range copies {
		at := now.Add(n.latency(now, subscriber) + n.upTo(n.o.Jitter))
		if faulty {
			at = at.Add(n.upTo(n.o.Scatter))
		}
		n.q.push(event{at: at, kind: atPublisher, node: int16(publisher), p: n.pool.get(b, uint64(subscriber))})
	}
}

// upTo draws a duration from 0 to d.
func (n *network) upTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(n.rng.Int64N(int64(d) + 1))
}

// latency returns the one-way latency now.
func (n *network) latency(now reliable.Instant, subscriber int) time.Duration {
	d := n.o.Latency + n.hops[subscriber].ExtraLatency
	if now >= reliable.Instant(n.o.Detour.At) {
		d += n.o.Detour.More
	}
	return d
}

// longest returns the longest time that a packet may take.
func (n *network) longest() (d time.Duration) {
	for _, h := range n.hops {
		w := h.ExtraLatency
		if h.Link.Rate > 0 {
			w += time.Duration(h.Link.Queue * int64(time.Second) / h.Link.Rate)
		}
		d = max(d, w)
	}
	return d + n.o.Latency + n.o.Detour.More + n.o.Jitter + n.o.Scatter + holdMax
}

package sim

import "github.com/fanfaremq/fanfare/reliable"

type eventKind uint8

const (
	atPublisher  eventKind = iota // p arrives at publisher node
	atSubscriber                  // p arrives at subscriber node
	timer                         // deadline of node
	alarm                         // step arg of the script, of process node
	flush                         // packets of network node held back for reordering on route arg
	script                        // step arg of the script
	attack                        // the attacker acts
)

// event is something that happens at a time.
type event struct {
	at   reliable.Instant
	tie  uint64 // order of events at the same time: as scheduled
	p    *packet
	arg  uint32
	node int16
	kind eventKind
}

func (e *event) before(f *event) bool { return e.at < f.at || e.at == f.at && e.tie < f.tie }

// queue is the future events: a heap with four children for each node.
type queue struct {
	h    []event
	ties uint64
}

func (q *queue) push(e event) {
	q.ties++
	e.tie = q.ties
	q.h = append(q.h, e)
	i := len(q.h) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(&q.h[up]) {
			break
		}
		q.h[i] = q.h[up]
		i = up
	}
	q.h[i] = e
}

func (q *queue) pop() (event, bool) {
	if len(q.h) == 0 {
		return event{}, false
	}
	first := q.h[0]
	n := len(q.h) - 1
	last := q.h[n]
	q.h[n] = event{}
	q.h = q.h[:n]
	if n == 0 {
		return first, true
	}
	i := 0
	for {
		down := 4*i + 1
		if down >= n {
			break
		}
		for c := down + 1; c < min(down+4, n); c++ {
			if q.h[c].before(&q.h[down]) {
				down = c
			}
		}
		if !q.h[down].before(&last) {
			break
		}
		q.h[i] = q.h[down]
		i = down
	}
	q.h[i] = last
	return first, true
}

// packet is a datagram on the network. Several events share it.
type packet struct {
	b    []byte
	from uint64 // address of its sender
	refs int
}

// packets is a free list of packets.
type packets struct{ free []*packet }

func (f *packets) get(b []byte, from uint64) *packet {
	var p *packet
	if n := len(f.free); n > 0 {
		p, f.free = f.free[n-1], f.free[:n-1]
	} else {
		p = &packet{}
	}
	p.b, p.from, p.refs = append(p.b[:0], b...), from, 1
	return p
}

func (f *packets) drop(p *packet) {
	if p.refs--; p.refs == 0 {
		f.free = append(f.free, p)
	} else if p.refs < 0 {
		panic("sim: packet dropped twice")
	}
}

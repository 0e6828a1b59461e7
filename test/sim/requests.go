package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/topics"
)

// Requests and replies. The checker verifies: a reply that a subscriber has made and its publisher waits for arrives
// exactly once and unchanged while both are present, and no subscriber executes a request twice. docs/protocol §24.

// openRequest is a request of a publisher.
type openRequest struct {
	q       *engine.Inquiry
	key     uint64          // of its message
	arrived map[uint64]bool // receivers that have replied
}

// madeReply is a reply that a subscriber has made.
type madeReply struct {
	sub  *subscriber
	stay int
	x    *stream
	size int
}

// maxReply is the maximum size of replies, in bytes: several bursts.
const maxReply = 60_000

// replyKey returns the content key of a receiver's reply to the message with that key.
func replyKey(key, receiver uint64) uint64 { return key ^ receiver*0x9e3779b97f4a7c15 }

// takeReplies checks the replies to a request as they arrive, until no subscriber can reply any more. It is a task.
func (p *publisher) takeReplies(a *openRequest) {
	for {
		x, err := a.q.Next(background)
		if err != nil {
			if !errors.Is(err, engine.ErrNoneLeft) && !p.closing {
				p.sim.fail("publisher %d: waiting for replies: %v", p.index, err)
			}
			a.q.Close()
			p.openRequests = slices.DeleteFunc(p.openRequests, func(x *openRequest) bool { return x == a })
			return
		}
		m := p.t.replies[a.key][x.Receiver]
		switch {
		case m == nil:
			p.sim.fail("publisher %d: got a reply of %#x, which sent none", p.index, x.Receiver)
			return
		case a.arrived[x.Receiver]:
			p.sim.fail("publisher %d: got a second reply of %#x", p.index, x.Receiver)
		case len(x.Data) != m.size || !matches(x.Data, replyKey(a.key, x.Receiver)):
			p.sim.fail("publisher %d: the reply of %#x was changed", p.index, x.Receiver)
		}
		a.arrived[x.Receiver] = true
		p.sim.report.Replies++
	}
}

// pendingReply returns a reply that was made and has to arrive, or nil.
func (p *publisher) pendingReply() *madeReply {
	for _, a := range p.openRequests {
		for id, m := range p.t.replies[a.key] {
			if !a.arrived[id] && a.q.Waits(id) && m.sendable() {
				return m
			}
		}
	}
	return nil
}

// sendable reports whether the reply can still be sent.
func (m *madeReply) sendable() bool { return m.sub.present() && m.sub.stay == m.stay && m.x.up() }

// request lets a subscriber reply to a message, after a while, if that is a request.
func (f *feed) request(d *engine.Delivery, m *message) {
	s, asked := f.r.sub, engine.AskedOf(d.From)
	if f.r.c == nil && (asked != nil) != m.isRequest {
		f.fail("topic %d: message %d: delivered as a request: %v, written as a request: %v", m.topic, d.Number, asked != nil, m.isRequest)
	}
	id := executed{f.x.id, m.key}
	if asked == nil || s.executed[id] {
		return // handled by another reader of this receiver
	}
	s.executed[id] = true
	r := &madeReply{sub: s, x: f.x, stay: s.stay}
	if s.o.Reply > 0 {
		r.size = int(m.key % uint64(s.o.Reply+1))
	}
	t, key := f.t, m.key
	s.Go(func() {
		if s.o.Think > 0 {
			s.pause(s.sim.net.upTo(s.o.Think))
		}
		data := make([]byte, r.size)
		fill(data, replyKey(key, id.receiver))
		if t.replies[key] == nil {
			t.replies[key] = make(map[uint64]*madeReply)
		}
		t.replies[key][id.receiver] = r
		if err := asked.Respond(data); err != nil {
			delete(t.replies[key], id.receiver)
			if !errors.Is(err, topics.ErrRequesterGone) && s.present() {
				s.sim.fail("subscriber %d: a reply: %v", s.number, err)
			}
		}
	})
}

// executed identifies a request that a receiver has delivered.
type executed struct{ receiver, key uint64 }

// requests lets publishers send requests, and subscribers reply after a delay.
func (d drawer) requests(o *Options) {
	for i := range o.Publishers {
		if d.chance(40) {
			o.Publishers[i].Requests = d.ratio(0, Always)
		}
	}
	for i := range o.Subscribers {
		s := &o.Subscribers[i]
		s.Reply = pick(d, 0, 100, 100, 1000, maxReply)
		if d.chance(40) {
			s.Think = d.time(10*time.Microsecond, 20*time.Millisecond)
		}
	}
}

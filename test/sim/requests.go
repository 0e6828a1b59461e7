package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
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
	id   uint64 // of its receiver
	st   *reliable.Stream
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
func (m *madeReply) sendable() bool {
	if m.sub.r == nil || m.sub.id != m.id || m.st.Down() {
		return false
	}
	for _, st := range m.sub.r.Streams() {
		if st == m.st {
			return true
		}
	}
	return false
}

// request lets a subscriber reply to a message, after a while, if that is a request.
func (f *feed) request(it *topics.Item, m *message) {
	s := f.sub
	if it.Request != m.isRequest {
		f.fail("topic %d: message %d: delivered as a request: %v, written as a request: %v", m.topic, it.Number, it.Request, m.isRequest)
	}
	if !it.Request || s.executed[m.key] || f.t == nil {
		return // handled by another reader of this subscriber
	}
	s.executed[m.key] = true
	t, st, id, stay := f.t, f.st, s.id, s.stay
	number, topic, key := it.Number, it.Topic.ID, m.key
	size := 0
	if s.o.Reply > 0 {
		size = int(key % uint64(s.o.Reply+1))
	}
	respond := func() {
		if !s.present() || s.stay != stay {
			return
		}
		data := make([]byte, size)
		fill(data, replyKey(key, id))
		out, signed := s.prove(st, topic, number, data)
		switch err := s.replies.Respond(s.now(), st.Instance, topic, number, out, signed); {
		case errors.Is(err, topics.ErrRequesterGone):
		case err != nil:
			s.sim.fail("subscriber %d: a reply to message %d: %v", s.number, number, err)
		default:
			if t.replies[key] == nil {
				t.replies[key] = make(map[uint64]*madeReply)
			}
			t.replies[key][id] = &madeReply{s, id, st, size}
		}
	}
	if s.o.Think == 0 {
		respond()
		return
	}
	s.sim.at(s.sim.net.upTo(s.o.Think), func() {
		if respond(); s.present() && s.stay == stay && !s.paused {
			s.pump()
		}
	})
}

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

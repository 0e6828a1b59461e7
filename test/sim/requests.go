package sim

import (
	"errors"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
)

// Requests and replies. The invariant, checked from outside of both: a reply that a subscriber has made, and that
// its publisher waits for, arrives, once and as it was made, while both are present; and no subscriber is asked
// twice to make one. docs/protocol §24.

// asked is a request of a publisher.
type asked struct {
	r    *reliable.Request
	key  uint64          // of its message
	came map[uint64]bool // receivers with a reply that arrived
}

// made is a reply that a subscriber has made.
type made struct {
	sub  *subscriber
	id   uint64 // of its receiver
	st   *reliable.Stream
	size int
}

// maxReply bounds the replies that subscribers make, in bytes: several bursts.
const maxReply = 60_000

// replyKey is that of the content of a receiver's reply to the message of that key.
func replyKey(key, receiver uint64) uint64 { return key ^ receiver*0x9e3779b97f4a7c15 }

// append writes the message, which fits a block.
func (w *writer) append(t *reliable.Topic) bool {
	if !w.message.asks {
		// As a publisher that writes on one topic only may.
		return w.p.o.Topics == 1 && w.w.Tail.Append(w.whole) || w.w.Append(t, w.whole)
	}
	r := w.p.newRequest(w.message.key)
	if !w.w.AppendRequest(t, w.whole, r.r) {
		return false
	}
	w.p.asked = append(w.p.asked, r)
	return true
}

// appendFragment writes the next fragment of the message.
func (w *writer) appendFragment(t *reliable.Topic) (next int) {
	if !w.message.asks {
		return w.w.AppendFragment(t, w.whole, w.offset)
	}
	r := w.p.newRequest(w.message.key)
	if next = w.w.AppendRequestFragment(t, w.whole, w.offset, r.r); next == len(w.whole) {
		w.p.asked = append(w.p.asked, r)
	}
	return next
}

func (p *publisher) newRequest(key uint64) *asked {
	return &asked{r: &reliable.Request{Ready: func() {}}, key: key, came: make(map[uint64]bool)}
}

// takeReplies judges the replies that have arrived. Requests that no subscriber is left to answer are closed.
func (p *publisher) takeReplies() {
	for i := 0; i < len(p.asked); {
		a := p.asked[i]
		for {
			x, ok := a.r.Take(p.s)
			if !ok {
				break
			}
			m := p.t.made[a.key][x.Receiver]
			switch {
			case m == nil:
				p.sim.fail("publisher %d: a reply of %#x, which has made none", p.index, x.Receiver)
			case a.came[x.Receiver]:
				p.sim.fail("publisher %d: a second reply of %#x", p.index, x.Receiver)
			case len(x.Data) != m.size || !matches(x.Data, replyKey(a.key, x.Receiver)):
				p.sim.fail("publisher %d: the reply of %#x is not as it was made", p.index, x.Receiver)
			}
			a.came[x.Receiver] = true
			p.sim.report.Replies++
		}
		if st := a.r.State(p.s); st.Over() {
			a.r.Close(p.s)
			p.asked = append(p.asked[:i], p.asked[i+1:]...)
			continue
		}
		i++
	}
}

// owed returns a reply that was made and must come, or nil.
func (p *publisher) owed() *made {
	for _, a := range p.asked {
		for id, m := range p.t.made[a.key] {
			if !a.came[id] && a.r.Waits(id) && m.there() {
				return m
			}
		}
	}
	return nil
}

// there reports whether the reply can still be sent.
func (m *made) there() bool {
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

// request has a subscriber reply to a message, after a while, if that is a request.
func (f *feed) request(it *topics.Item, m *message) {
	s := f.sub
	if it.Request != m.asks {
		f.fail("topic %d: message %d is delivered as a request: %v, it was written as one: %v", m.topic, it.Number, it.Request, m.asks)
	}
	if !it.Request || s.executed[m.key] || f.t == nil {
		return // another reader of this subscriber has it
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
		switch err := s.r.Respond(s.now(), st.Instance, topic, number, out, signed); {
		case errors.Is(err, reliable.ErrRequesterGone):
		case err != nil:
			s.sim.fail("subscriber %d: a reply to message %d: %v", s.number, number, err)
		default:
			if t.made[key] == nil {
				t.made[key] = make(map[uint64]*made)
			}
			t.made[key][id] = &made{s, id, st, size}
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

// requests lets publishers ask, and subscribers take their time.
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

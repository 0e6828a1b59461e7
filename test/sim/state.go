package sim

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// State that publishers keep for late joiners. The state of a topic is its number and a series of
// records, so that the checker sees its completeness and its time.

// stateRound is the current round of a publisher.
type stateRound struct {
	s       *reliable.StateSender // nil: it keeps no state
	todo    []int                 // topics
	topic   int                   // its state is being sent
	left    []byte
	number  uint64
	sending bool
	begun   bool
	failed  bool
	again   reliable.Instant // when to try again, by the node's clock; 0: never
}

// states lets some publishers keep state, and some subscribers begin with it.
func (d drawer) states(o *Options) {
	for i := range o.Publishers {
		if d.chance(60) {
			o.Publishers[i].State = 1 + pick(d, 0, 300, 3000, 20000)
			o.Publishers[i].StateFails = d.ratio(60, 50*Percent)
		}
	}
	for i := range o.Subscribers {
		s := &o.Subscribers[i]
		if s.FromWindow || len(s.Patterns) > 0 || !d.chance(25) {
			continue
		}
		s.FromState = true
		if d.chance(60) {
			s.Stays[0].After = d.time(10*time.Microsecond, o.Faults)
		}
	}
}

// patternStates lets some subscribers with patterns begin with state.
func (d drawer) patternStates(o *Options) {
	for i := range o.Subscribers {
		s := &o.Subscribers[i]
		late := slices.ContainsFunc(s.Patterns, func(p Pattern) bool { return p.At > 0 }) // which a bus rejects
		if len(s.Patterns) > 0 && !late && !s.FromWindow && d.chance(70) {
			s.FromState = true
		}
	}
}

// beginState begins to keep state.
func (p *publisher) beginState() {
	p.state = stateRound{}
	if p.o.State == 0 {
		return
	}
	p.state.s = p.s.NewState(p.now(), func(w *reliable.Writer) bool {
		p.grow()
		if !p.s.Grant(w) {
			p.s.Short(p.now())
			return false
		}
		return true
	})
	p.state.s.Keep(true)
}

// updateState continues the current round, or begins one.
func (p *publisher) updateState(now reliable.Instant) {
	x := &p.state
	if x.s == nil || p.ending {
		return
	}
	limited := x.s.Pending() && p.s.Blocked() == events.ReasonRate
	if x.again > now && !limited {
		return
	}
	x.again = 0
	if !x.s.Open() {
		if x.s.Due() > now {
			return
		}
		if !x.s.Begin(now) {
			x.again = now.Add(time.Millisecond)
			return
		}
		for i, t := range p.topics {
			if x.s.Wanted(t.ID) {
				x.todo = append(x.todo, i)
			}
		}
	}
	if x.s.Due() != reliable.Never && x.s.Due() > now {
		x.s.Flush(now, false)
		return
	}
	for {
		if x.sending {
			var done bool
			if x.left, x.begun, done = x.s.Put(now, p.topics[x.topic], x.number, x.left, !x.begun, x.failed); !done {
				break
			}
			x.sending = false
		}
		if len(x.todo) == 0 {
			if x.s.End(now) {
				return
			}
			break
		}
		if !p.makeState(now, x.todo[0]) {
			break
		}
		x.todo = x.todo[1:]
	}
	x.s.Flush(now, false)
	if x.s.Due() == reliable.Never {
		x.again = now.Add(time.Millisecond)
	}
}

// makeState makes the state of a topic. It reports false if written messages do not have a number yet.
func (p *publisher) makeState(now reliable.Instant, topic int) bool {
	t := p.topics[topic]
	number := t.Next()
	for _, w := range p.writers {
		if w.begun && w.large && w.offset > 0 {
			return false // within a message
		}
		n := w.w.Waiting(t)
		if n > 0 && len(p.writers) > 1 && p.s.Assign(now, w.w, true) != events.ReasonNone {
			return false // packets of other writers may be sent before this one
		}
		if len(p.writers) == 1 {
			number += n
		}
	}
	if len(p.writers) > 1 {
		number = t.Next()
	}
	if want := p.t.published(topic); number != want {
		p.sim.fail("publisher %d: topic %d: state as of message %d, but %d were written", p.index, topic, number, want)
	}
	x := &p.state
	x.topic, x.number, x.sending, x.begun = topic, number, true, false
	x.left = nil
	if x.failed = p.sim.net.draw(p.o.StateFails); !x.failed {
		x.left = stateOf(number, p.o.State-1)
	}
	return true
}

// published returns how many messages of the topic were written.
func (t *truth) published(topic int) uint64 {
	n := uint64(len(t.topics[topic].sent))
	for w := range t.written {
		for _, m := range t.written[w][t.pops[w]:] {
			if m.topic == topic {
				n++
			}
		}
	}
	return n
}

// stateOf returns the state as of a message number, with size more bytes.
func stateOf(number uint64, size int) (b []byte) {
	var record [200]byte
	b = wire.AppendRecord(b, binary.LittleEndian.AppendUint64(nil, number))
	for i := 0; size > 0; i++ {
		r := record[:min(size, i*37%len(record))]
		fill(r, number+uint64(i))
		b = wire.AppendRecord(b, r)
		size -= max(1, len(r))
	}
	return b
}

// stateFeed is the received state of one topic of a feed.
type stateFeed struct {
	received []byte // records
	number   uint64 // of the first message after the state; 0: none
	over     bool
}

// checkState checks the delivered state of a topic.
func (f *feed) checkState(i int, it *topics.Item) {
	tf := &f.topics[i]
	if !f.sub.o.FromState || tf.begun || tf.state.over {
		f.fail("topic %d: state %+v, begun %v", i, it, tf.begun)
		return
	}
	switch it.State {
	case reliable.StateRecord:
		tf.state.received = wire.AppendRecord(tf.state.received, it.Data)
	case reliable.StateEnd:
		tf.state.over, tf.state.number = true, it.Number
		tf.begun, tf.next = true, it.Number
		if want := stateOf(it.Number, f.t.o.State-1); f.t.o.State == 0 || !bytes.Equal(want, tf.state.received) {
			f.fail("topic %d: state as of %d: got %d bytes, want %d with other content", i, it.Number, len(tf.state.received), len(want))
		}
		f.sub.sim.report.States++
	case reliable.StateMissing:
		tf.state.over = true
		f.sub.sim.report.Stateless[it.Why]++
		if i >= f.t.o.Topics {
			return // it may not know that the publisher has fewer topics
		}
		if it.Why == events.StateUnmade && f.t.o.StateFails == 0 || it.Why == events.StateNotKept && f.t.o.State > 0 {
			f.fail("topic %d: no state: %v", i, it.Why)
		}
	}
}

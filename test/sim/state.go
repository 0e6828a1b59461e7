package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// State that publishers keep for late joiners. The state of a topic is its number and a series of
// records, so that the checker sees its completeness and its time.

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

// keepState begins to keep the state of each topic.
func (p *publisher) keepState() {
	if p.o.State == 0 {
		return
	}
	for i, t := range p.topics {
		if _, err := p.pub.KeepState(t, func(w *engine.StateWriter) error { return p.makeState(w, i) }); err != nil {
			p.sim.fail("publisher %d: %v", p.index, err)
		}
	}
}

var errNoState = errors.New("the state cannot be made")

// makeState makes the state of a topic.
func (p *publisher) makeState(w *engine.StateWriter, topic int) error {
	number, err := w.Begin()
	if err != nil {
		return err
	}
	if least, most := p.t.published(topic); number < least || number > most {
		p.sim.fail("publisher %d: topic %d: state as of message %d, but %d to %d were written", p.index, topic, number, least, most)
	}
	if p.sim.net.draw(p.o.StateFails) {
		return errNoState
	}
	return eachRecord(number, p.o.State-1, w.Write)
}

// published returns how many messages of the topic were written, without and with those that are being written.
func (t *truth) published(topic int) (least, most uint64) {
	n := uint64(len(t.topics[topic].sent))
	return n, t.assigned(topic)
}

// eachRecord calls f with the records of the state as of a message number, with size more bytes.
func eachRecord(number uint64, size int, f func([]byte) error) error {
	var record [200]byte
	err := f(binary.LittleEndian.AppendUint64(nil, number))
	for i := 0; size > 0 && err == nil; i++ {
		r := record[:min(size, i*37%len(record))]
		fill(r, number+uint64(i))
		err = f(r)
		size -= max(1, len(r))
	}
	return err
}

// stateOf returns the state as of a message number, with size more bytes.
func stateOf(number uint64, size int) (b []byte) {
	_ = eachRecord(number, size, func(r []byte) error {
		b = wire.AppendRecord(b, r)
		return nil
	})
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
	late := tf.begun && it.State != reliable.StateMissing // a slow reader gets the gap before the news of the state
	if !f.r.sub.o.FromState || late || tf.state.over {
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
		f.r.sub.sim.report.States++
	case reliable.StateMissing:
		tf.state.over = true
		f.r.sub.sim.report.Stateless[it.Why]++
		if i >= f.t.o.Topics {
			return // it may not know that the publisher has fewer topics
		}
		if it.Why == events.StateUnmade && f.t.o.StateFails == 0 || it.Why == events.StateNotKept && f.t.o.State > 0 {
			f.fail("topic %d: no state: %v", i, it.Why)
		}
	}
}

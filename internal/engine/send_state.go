package engine

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// State for late joiners. Publishers register a function that makes it. A publication puts it into its stream when a
// subscriber requests it. docs/protocol §25.

// states are a publication's sources of state, and the current round. Under its lock.
type states struct {
	sources []*stateSource
	s       *topics.StateSender // nil: no source was ever registered
	// Of the current round:
	todo    []*stateSource   // they have still to make their state
	made    []madeState      // it has still to be sent
	making  *Worker          // the last goroutine that made some; nil: none yet
	makes   bool             // making has not ended
	resting reliable.Instant // nothing is due before
}

// stateSource makes the state of one topic.
type stateSource struct {
	t    *topics.Topic
	make func(*StateWriter) error
}

// madeState is a topic's state, or the rest of it.
type madeState struct {
	t      *topics.Topic
	number uint64 // of the first message that the state does not cover
	left   []byte
	begun  bool // some of it was sent
	failed bool
}

const (
	// stateBatch is how many bytes of state are made before they are sent, besides the last topic's.
	stateBatch = 256 << 10
	// maxState bounds the state of one topic, in bytes.
	maxState = 256 << 20
	// stateRest is how soon to check again when a round waits for room.
	stateRest = 250 * time.Microsecond
)

// ErrStateKept says that the topic's state already has a publisher on this bus.
var ErrStateKept = errors.New("another publisher of this bus already provides the state of the topic: close that one first")

// ErrStateTooLarge says that a state exceeds maxState.
var ErrStateTooLarge = fmt.Errorf("the state of a topic has more than %d MiB", maxState>>20)

// KeepState registers the function that makes the state of a topic. It is called on its own goroutine when a subscriber
// waits for the state. drop removes it.
func (p *Publication) KeepState(t *topics.Topic, make func(*StateWriter) error) (drop func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := &p.states
	if slices.ContainsFunc(x.sources, func(s *stateSource) bool { return s.t == t }) {
		return nil, ErrStateKept
	}
	if x.s == nil {
		if err := p.newState(); err != nil {
			return nil, err
		}
	}
	src := &stateSource{t, make}
	x.sources = append(x.sources, src)
	x.s.Keep(true)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		x.sources, x.todo = dropped(x.sources, src), dropped(x.todo, src)
		x.s.Keep(len(x.sources) > 0)
	}, nil
}

// due returns when tendState has something to do.
func (x *states) due() reliable.Instant {
	if x.s == nil || x.makes {
		return reliable.Never
	}
	d := x.s.Due()
	if d == reliable.Never && !x.s.Open() {
		return d
	}
	if d == reliable.Never { // it waits for room, which statuses bring
		d = x.resting
	}
	return max(d, x.resting)
}

// tendState continues the current round, or begins one that is due. Under mu.
func (p *Publication) tendState(now reliable.Instant) {
	x := &p.states
	// State that waits for the rate limit is sent as soon as the limit allows: otherwise the loop would check repeatedly.
	limited := x.s.Pending() && p.s.Blocked() == events.ReasonRate
	if p.life.shut() || x.makes || now < x.due() && !limited {
		return
	}
	x.resting = now.Add(stateRest)
	if !x.s.Open() {
		if !x.s.Begin(now) {
			return
		}
		for _, src := range x.sources {
			if x.s.Wanted(src.t.ID) {
				x.todo = append(x.todo, src)
			}
		}
	}
	for len(x.made) > 0 {
		m := &x.made[0]
		var done, begun bool
		m.left, begun, done = x.s.Put(now, m.t, m.number, m.left, !m.begun, m.failed)
		if m.begun = begun; !done {
			x.s.Flush(now, false)
			return
		}
		x.made = x.made[1:]
	}
	if len(x.todo) == 0 {
		if x.s.End(now) {
			x.made = nil
		}
		return
	}
	x.s.Flush(now, false)
	x.makes = true
	making := &stateMaking{p: p}
	x.making = p.l.work(making.run, making.exited)
}

// stateMaking makes the next states of a round.
type stateMaking struct {
	p    *Publication
	made []madeState
	at   *stateSource // the source that makes its state
}

func (x *stateMaking) run() {
	for size := 0; size < stateBatch; {
		if x.at = x.p.nextSource(); x.at == nil {
			break
		}
		m := x.p.makeState(x.at)
		size += len(m.left)
		x.made = append(x.made, m)
	}
	x.give()
}

// exited continues without a state if its function has ended the goroutine. It is deferred.
func (x *stateMaking) exited() {
	if !exits() {
		return
	}
	report.StateFailed.Log(x.p.l.log, "topic", x.at.t.Name, "err", &exitedError{"the function that makes it", "this state"})
	x.made = append(x.made, madeState{t: x.at.t, failed: true})
	x.give()
}

// give passes what was made to the round.
func (x *stateMaking) give() {
	p := x.p
	p.mu.Lock()
	p.states.makes = false
	if p.life.closed == nil {
		p.states.made, p.states.resting = x.made, 0
	}
	p.mu.Unlock()
	p.l.wakeBy(0)
}

// nextSource takes the next source of the round. Publishers that have been closed meanwhile have removed theirs.
func (p *Publication) nextSource() *stateSource {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := &p.states
	if len(x.todo) == 0 || p.life.closed != nil {
		return nil
	}
	src := x.todo[0]
	x.todo = x.todo[1:]
	return src
}

// makeState makes the state of one source.
func (p *Publication) makeState(src *stateSource) madeState {
	w := &StateWriter{p: p, t: src.t}
	watch := p.l.watchState(src.t.Name)
	defer watch.stop()
	watch.begin()
	err := src.make(w)
	watch.end()
	if err == nil {
		_, err = w.Begin()
	}
	if err == nil {
		return madeState{t: src.t, number: w.number, left: w.state}
	}
	if !errors.Is(err, net.ErrClosed) {
		report.StateFailed.Log(p.l.log, "topic", src.t.Name, "err", err)
	}
	return madeState{t: src.t, number: w.number, failed: true}
}

// StateWriter collects the state of a topic. One goroutine may use it, during the call that it is passed to.
type StateWriter struct {
	p      *Publication
	t      *topics.Topic
	begun  bool
	number uint64
	state  []byte
}

// Begin says that the state covers all that was published on the topic until now. It returns the number of the topic's
// next message. Only the first call has an effect.
func (w *StateWriter) Begin() (next uint64, err error) {
	if w.begun {
		return w.number, nil
	}
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	if err := w.p.life.closed; err != nil {
		return 0, err
	}
	w.number, w.begun = w.p.published(w.t), true
	return w.number, nil
}

// Write appends a copy of record to the state. The first call calls Begin.
func (w *StateWriter) Write(record []byte) error {
	if _, err := w.Begin(); err != nil {
		return err
	}
	switch {
	case len(record) > wire.MaxMessage:
		return fmt.Errorf("%w: %d bytes, the limit is %d", topics.ErrMessageTooLarge, len(record), wire.MaxMessage)
	case len(w.state)+len(record) > maxState:
		return ErrStateTooLarge
	}
	w.state = wire.AppendRecord(w.state, record)
	return nil
}

// published returns the number of the next message that is published on t. Under mu.
func (p *Publication) published(t *topics.Topic) uint64 {
	p.open.take()
	defer p.giveOpen()
	return t.Next() + p.open.w.Waiting(t)
}

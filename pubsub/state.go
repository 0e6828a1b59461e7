package pubsub

import (
	"errors"
	"fmt"
	"sync"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// StateWriter takes the state of a topic, as a row of records. It is for one goroutine, while
// the function runs that it is passed to.
type StateWriter struct {
	w     *engine.StateWriter
	topic string
}

// Begin says that the records are the state as of all that was published on the topic until now, by any publisher of
// the bus; later messages follow them. It returns the number of the topic's next message. Only the first call has an
// effect, and Write calls it. A function that may have nothing to write calls Begin before it releases the lock.
func (w *StateWriter) Begin() (next uint64, err error) {
	next, err = w.w.Begin()
	return next, failed("state of", w.topic, err)
}

// Write appends a record to the state, which it copies: up to 16 MiB each, and 256 MiB in all.
// Subscribers get it as a Message of which IsState is true. A joining subscriber must have room for all of the state
// before any of it is delivered: about a quarter of Config.ReceiveMemoryBytes there, which is 16 MiB unless set.
func (w *StateWriter) Write(record []byte) error {
	return failed("state of", w.topic, w.w.Write(record))
}

// ErrStateKept: another publisher of the bus keeps the state of the topic.
var ErrStateKept = engine.ErrStateKept

// State has write called when a subscriber begins with From(State): it writes what a subscriber needs
// before the messages that follow. It is called in its own goroutine, once for all subscribers
// that wait. While it runs, from its first Write or Begin until it returns, nothing may be
// published on the topic: publish under a lock, and take it first.
//
//	pub.State(func(w *pubsub.StateWriter) error {
//		mu.Lock()
//		defer mu.Unlock()
//		return w.Write(book.Bytes())
//	})
//
// Keep the state small: if a subscriber's receive window has no room for it, together with the state of other topics of
// the group and the messages published meanwhile, it begins without it, however often it asks (StateOverrun, From).
//
// Return soon: the functions of several topics of one group are called one after the other, and a subscriber that has
// waited for Config.RecoveryDeadline begins without state.
//
// The state is sent in the order of the stream, beside the messages, and takes Config.StateShare of the rate. An error
// makes subscribers begin without state, with a *StateError, and is logged. A topic has one State or Retain on a bus,
// until its publisher is closed; a second one is ErrStateKept.
func (p *Publisher) State(write func(*StateWriter) error) error {
	if err := p.usable("keep the state of"); err != nil {
		return err
	}
	if write == nil {
		return p.failed("keep the state of", errors.New("it needs a function that writes the state"))
	}
	p.kept.mu.Lock()
	defer p.kept.mu.Unlock()
	drop, err := p.p.KeepState(p.topic, func(w *engine.StateWriter) error {
		return write(&StateWriter{w, p.topic.Name})
	})
	if err == nil {
		p.kept.drop = drop
	}
	return p.failed("keep the state of", err)
}

// Retain keeps the last message that this publisher publishes from now on, for subscribers that begin with From(State):
// it is the topic's state, or nothing while there is none. Call it before the first Publish, and publish on the topic
// with this publisher only. Publishing then takes a lock and copies the message once more.
func (p *Publisher) Retain() error {
	last := new(retained)
	err := p.State(func(w *StateWriter) error {
		last.mu.Lock()
		defer last.mu.Unlock()
		if _, err := w.Begin(); err != nil || !last.any {
			return err
		}
		return w.Write(last.msg)
	})
	if err == nil {
		p.last.Store(last)
	}
	return err
}

// retained is the last message of a publisher.
type retained struct {
	mu  sync.Mutex // over a call of Publish
	msg []byte     // under mu
	any bool       // under mu
}

// publish publishes with f, which returns how many of msgs it has taken, and keeps the last.
func (r *retained) publish(msgs [][]byte, f func() (int, error)) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := f()
	if n > 0 {
		r.msg, r.any = append(r.msg[:0], msgs[n-1]...), true
	}
	return n, err
}

// one is publish of one message.
func (r *retained) one(msg []byte, f func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := f()
	if err == nil {
		r.msg, r.any = append(r.msg[:0], msg...), true
	}
	return err
}

// dropState ends that the publisher keeps state.
func (p *Publisher) dropState() {
	p.kept.mu.Lock()
	defer p.kept.mu.Unlock()
	if p.kept.drop != nil {
		p.kept.drop()
		p.kept.drop = nil
	}
}

// ErrNoState: a subscription that was to begin with state begins without. *StateError says why.
var ErrNoState = errors.New("there is no state")

// StateError stands in front of the messages of a topic that a subscription with From(State)
// begins without state. They are those published from then on. It matches ErrNoState.
type StateError struct {
	Topic string
	Cause events.StateCause
	// Publisher, with PublisherName and Epoch as in Message, did not provide the state.
	Publisher     PublisherID
	PublisherName string
	Epoch         uint64
	// Room is how many bytes of packets this bus has room for, with StateOverrun: the state, that of other topics of
	// the group which comes with it, and what is published meanwhile.
	Room int
}

func (e *StateError) Error() string {
	why := e.Cause.String()
	if e.Room > 0 {
		why += fmt.Sprintf(", which is %d bytes", e.Room)
	}
	return fmt.Sprintf("topic %s begins without the state of publisher %s: %s; %s", e.Topic, e.Publisher, why, remedyOf(e.Cause))
}

// Is makes errors.Is(err, ErrNoState) true.
func (e *StateError) Is(target error) bool { return target == ErrNoState }

// remedyOf is what to do about state that is missing.
func remedyOf(c events.StateCause) string {
	switch c {
	case events.StateNotKept:
		return "give its publisher State or Retain, or begin with Live"
	case events.StateUnmade:
		return "its log says why"
	case events.StateOverrun:
		return "raise ReceiveMemoryBytes here, of which that is about a quarter or less, or StateShare there if much is published meanwhile"
	case events.StateTooLarge:
		return "raise MaxMessage"
	case events.StatePublisherGone:
		return "another instance of it will be asked again"
	}
	return "subscribe again"
}

// stateError is the error in place of the state that d says is missing.
func stateError(d *engine.Delivery) *StateError {
	return &StateError{
		Topic: d.Topic.Name, Cause: d.Why,
		Publisher: PublisherID(d.From.Publisher), PublisherName: d.From.Name, Epoch: d.From.Epoch, Room: int(d.Number),
	}
}

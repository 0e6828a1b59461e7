package pubsub

import (
	"errors"
	"fmt"
	"sync"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// StateWriter receives the state of a topic, as a sequence of records. One goroutine may use it, until the function
// returns that it was passed to.
type StateWriter struct {
	w     *engine.StateWriter
	topic string
}

// Begin marks the moment of the state: the records include everything published on the topic until now, by any
// publisher of the bus; later messages follow them. It returns the number of the topic's next message. Only the first
// call has an effect, and the first Write calls it. A function that may write no records must call Begin before it
// releases the lock.
func (w *StateWriter) Begin() (next uint64, err error) {
	next, err = w.w.Begin()
	return next, failed("state of", w.topic, err)
}

// Write appends a copy of a record to the state: up to 16 MiB each, and 256 MiB in all. Subscribers receive it as a
// Message with IsState true. A joining subscriber must have room for all of the state before any of it is delivered:
// about a quarter of Config.ReceiveMemoryBytes there, which is 16 MiB unless set.
func (w *StateWriter) Write(record []byte) error {
	return failed("state of", w.topic, w.w.Write(record))
}

// ErrStateKept: another publisher of the bus already provides the state of the topic.
var ErrStateKept = engine.ErrStateKept

// State registers write, which is called when a subscriber begins with From(State): it writes what the subscriber
// needs to know before the messages that follow. It is called in a separate goroutine, once for all subscribers that
// wait. From its first Write or Begin until it returns, nothing may be published on the topic: hold a lock in write,
// and publish under the same lock.
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
// write must return soon: the functions of several topics of one group are called one after the other, and a
// subscriber that has waited for Config.RecoveryDeadline begins without state.
//
// The state is sent in the stream, between the messages, at Config.StateShare of the rate. If write returns an error,
// it is logged, and subscribers begin without state, with a *StateError. A topic has one State or Retain on a bus,
// until its publisher is closed; a second one returns ErrStateKept.
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

// Retain keeps the last message that this publisher publishes from now on as the topic's state, for subscribers that
// begin with From(State). Before the first message the state is empty. Call it before the first Publish, and publish
// on the topic with this publisher only. Publishing then takes a lock and copies the message once more.
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
	mu  sync.Mutex // held during Publish
	msg []byte     // under mu
	any bool       // under mu
}

// publish calls f, which returns how many of msgs it published, and keeps the last of those.
func (r *retained) publish(msgs [][]byte, f func() (int, error)) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := f()
	if n > 0 {
		r.msg, r.any = append(r.msg[:0], msgs[n-1]...), true
	}
	return n, err
}

// one is publish for one message.
func (r *retained) one(msg []byte, f func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := f()
	if err == nil {
		r.msg, r.any = append(r.msg[:0], msg...), true
	}
	return err
}

// dropState stops keeping state.
func (p *Publisher) dropState() {
	p.kept.mu.Lock()
	defer p.kept.mu.Unlock()
	if p.kept.drop != nil {
		p.kept.drop()
		p.kept.drop = nil
	}
}

// ErrNoState: a subscription with From(State) begins without state. The *StateError has the reason.
var ErrNoState = errors.New("there is no state")

// StateError is delivered when a subscription with From(State) begins a topic without state. Messages published from
// then on follow. It matches ErrNoState.
type StateError struct {
	Topic string
	Cause events.StateCause
	// Publisher did not provide the state; PublisherName and Epoch are as in Message.
	Publisher     PublisherID
	PublisherName string
	Epoch         events.ID
	// Room, with StateOverrun, is the space of this bus in bytes of packets: for the state, that of other topics of the
	// group sent with it, and the messages published meanwhile.
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

// remedyOf is what to do about missing state.
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

// stateError is the error for a delivery that reports missing state.
func stateError(d *engine.Delivery) *StateError {
	return &StateError{
		Topic: d.Topic.Name, Cause: d.Why,
		Publisher: d.From.Publisher, PublisherName: d.From.Name, Epoch: d.From.Epoch,
		Room: int(d.Number),
	}
}

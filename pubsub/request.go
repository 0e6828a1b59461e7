package pubsub

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/plural"
	"github.com/fanfaremq/fanfare/reliable"
)

// Reply is one subscriber's reply to a request.
type Reply struct {
	Data []byte // the caller's own
	// Responder is the random id of the bus that replied. Name is what it calls itself, or its host and process, Address
	// where it sends from, as the fabric writes it, and Tag its Config.Tag, each as far as it is known.
	Responder          uint64
	Name, Address, Tag string
	After              time.Duration // since the request was published
}

// NoReplyError is why a request ended with fewer replies than were wanted. It matches ErrNoResponders where the topic
// had no subscriber, or all that have not replied are gone (see Answered); otherwise the context's error and its cause.
type NoReplyError struct {
	Topic       string
	Subscribers int // that are known to have wanted the topic since the request was published, and others that have replied. 0: there were none, or it was not published
	Heard       int // of them, those that are known to have the request
	Answered    int // of them, those that have replied
	Gone        int // of them, those that went without a reply
	Err         error
}

func (e *NoReplyError) Error() string {
	switch {
	case errors.Is(e.Err, ErrNoResponders) && e.Subscribers == 0:
		return fmt.Sprintf("pubsub: request on %q: %v: subscribe to it, with a handler that calls Message.Respond", e.Topic, e.Err)
	case errors.Is(e.Err, ErrNoResponders):
		return fmt.Sprintf("pubsub: request on %q: no other reply will come: of %s %d replied and %d went away", e.Topic, plural.N(e.Subscribers, "subscriber"), e.Answered, e.Gone)
	case e.Subscribers == 0:
		return fmt.Sprintf("pubsub: request on %q was not published: %v", e.Topic, e.Err)
	}
	return fmt.Sprintf("pubsub: request on %q: %v: of %s the request is known to have reached %d, %d replied and %d went away", e.Topic, e.Err, plural.N(e.Subscribers, "subscriber"), e.Heard, e.Answered, e.Gone)
}

// Unwrap returns what ended the wait.
func (e *NoReplyError) Unwrap() error { return e.Err }

// Request publishes msg on topic as a request, and waits for the first reply. Each
// subscriber of the topic gets it as a message, once, in the order of all that this bus
// publishes on it, and may call Message.Respond. Replies come by unicast. One that is lost is asked for
// again, and its subscriber sends it again from memory: no handler is called a second time.
//
// Request waits as long as ctx allows: give it a deadline. It returns a *NoReplyError when that has passed; at once,
// matching ErrNoResponders, where the topic has no subscriber; and when all that it had are gone. A subscriber of a
// pattern is asked whether it wants the topic, and counts only if it does; until it has answered its reply is waited
// for. Where this bus has published nothing in the topic's group before, it waits for a first subscriber for half a
// second. In a handler of the bus it is ErrInHandler.
func (b *Bus) Request(ctx context.Context, topic string, msg []byte) (Reply, error) {
	for r, err := range b.RequestMany(ctx, topic, msg, 1) {
		return r, err
	}
	panic("pubsub: RequestMany yields a reply or an error")
}

// RequestMany is Request for several replies, which it yields as they come, each subscriber's once: n replies, or, with
// n = 0, one of each subscriber that is known when the request is published. Fewer end with an error, a *NoReplyError
// where a subscriber did not reply: it is the last thing yielded.
func (b *Bus) RequestMany(ctx context.Context, topic string, msg []byte, n int) iter.Seq2[Reply, error] {
	return func(yield func(Reply, error) bool) {
		if n < 0 {
			yield(Reply{}, fmt.Errorf("pubsub: request on %q: %d replies are wanted: give 1 or more, or 0 for one of each subscriber", topic, n))
			return
		}
		q, err := b.inquire(ctx, topic, msg)
		if err != nil {
			yield(Reply{}, err)
			return
		}
		defer q.Close()
		for i := 0; n == 0 || i < n; i++ {
			r, err := q.Next(ctx)
			if errors.Is(err, engine.ErrNoneLeft) && n == 0 && i > 0 && q.State().Gone == 0 {
				return
			}
			if err != nil {
				yield(Reply{}, requestError(topic, q.State(), err))
				return
			}
			if !yield(Reply{Data: r.Data, Responder: r.Receiver, Name: r.Name, Address: r.Address, Tag: r.Tag, After: r.After},
				nil) {
				return
			}
		}
	}
}

// inquire publishes a request.
func (b *Bus) inquire(ctx context.Context, topic string, msg []byte) (*engine.Inquiry, error) {
	p, err := b.Publisher(topic)
	if err != nil {
		return nil, err
	}
	q, err := p.p.Request(ctx, p.topic, msg)
	if errors.Is(err, ErrNoResponders) || err != nil && ctx != nil && ctx.Err() != nil {
		return nil, requestError(topic, reliable.RequestState{}, err)
	}
	return q, failed("request on", topic, err)
}

// requestError is why a request on topic ended early.
func requestError(topic string, st reliable.RequestState, err error) error {
	switch {
	case errors.Is(err, engine.ErrNoneLeft):
		err = ErrNoResponders
	case !errors.Is(err, ErrNoResponders) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded):
		return failed("request on", topic, err)
	case st.Sent && st.Subscribers == 0: // those that may subscribe have not said so
		err = fmt.Errorf("%w: %w", ErrNoResponders, err)
	}
	return &NoReplyError{Topic: topic, Subscribers: st.Subscribers, Heard: st.Heard, Answered: st.Answered,
		Gone: st.Gone, Err: publicError(err)}
}

// IsRequest reports whether the publisher of the message waits for replies: Respond sends one.
func (m Message) IsRequest() bool { return engine.AskedOf(m.from) != nil }

// Respond replies to a request with data, which it copies, of up to 16 MiB. It does not wait for the requester, and
// may be called at any time: in a handler, after it has returned, and by any goroutine. A
// request has one reply of each bus, whichever of its subscriptions sends it: another one is
// ErrAnswered. A message that is no request is ErrNoRequest. Where the requester has
// ended, or has fallen silent, the error is ErrRequesterGone; that it waits no more is not known.
//
// The reply is kept for the requester to ask for again: for 10 s, all replies in a group
// up to 32 MiB. Closing the subscription or the bus waits a moment for that (Bus.Close).
func (m Message) Respond(data []byte) error {
	asked := engine.AskedOf(m.from)
	if asked == nil {
		return failed("respond to a message of", m.Topic, ErrNoRequest)
	}
	return failed("respond to a request on", m.Topic, asked.Respond(data))
}

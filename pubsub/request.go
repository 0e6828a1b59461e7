package pubsub

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/plural"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Reply is one subscriber's reply to a request.
type Reply struct {
	Data []byte // a copy that belongs to the caller
	// Responder is the random id of the bus that replied. Name is its Config.Name, or host and process; Address the
	// source of its packets, as the fabric writes it; Tag its Config.Tag. Each of the three is empty if not known.
	Responder          events.ID
	Name, Address, Tag string
	After              time.Duration // since the request was published
}

// NoReplyError reports a request that ended with fewer replies than requested. It matches ErrNoResponders if the
// topic had no subscriber, or if all that have not replied are gone (see Answered); otherwise the context's error and
// its cause.
type NoReplyError struct {
	Topic       string
	Subscribers int // known to have subscribed to the topic since the request was published, and others that replied. 0: none, or the request was not published
	Heard       int // of Subscribers: known to have received the request
	Answered    int // of Subscribers: replied
	Gone        int // of Subscribers: left or lost, without a reply
	Err         error
}

func (e *NoReplyError) Error() string {
	switch {
	case errors.Is(e.Err, ErrNoResponders) && e.Subscribers == 0:
		return fmt.Sprintf("pubsub: request on %q: %v: subscribe to it, with a handler that calls Message.Respond", e.Topic, e.Err)
	case errors.Is(e.Err, ErrNoResponders):
		return fmt.Sprintf("pubsub: request on %q: no other reply will come: of %s %d replied and %d left", e.Topic, plural.N(e.Subscribers, "subscriber"), e.Answered, e.Gone)
	case e.Subscribers == 0:
		return fmt.Sprintf("pubsub: request on %q was not published: %v", e.Topic, e.Err)
	}
	return fmt.Sprintf("pubsub: request on %q: %v: of %s the request is known to have reached %d, %d replied and %d left", e.Topic, e.Err, plural.N(e.Subscribers, "subscriber"), e.Heard, e.Answered, e.Gone)
}

// Unwrap returns the error that ended the wait.
func (e *NoReplyError) Unwrap() error { return e.Err }

// Request publishes msg on topic as a request, and waits for the first reply. Each subscriber of the topic receives
// it as a message, once, in order with the other messages of this bus on the topic, and may call Message.Respond.
// Replies are sent by unicast. A lost reply is requested again, and the subscriber's bus sends it again from memory:
// no handler is called a second time.
//
// Request waits until ctx ends: give it a deadline. It then returns a *NoReplyError. It returns one that matches
// ErrNoResponders immediately if the topic has no subscriber, and when all its subscribers are gone. The bus asks
// subscribers with a pattern whether they want the topic: they count only if they do; until then Request waits for
// their replies. If this bus has not published in the topic's group before, Request waits half a second for a first
// subscriber. In a handler of the bus it returns ErrInHandler.
func (b *Bus) Request(ctx context.Context, topic string, msg []byte) (Reply, error) {
	for r, err := range b.RequestMany(ctx, topic, msg, 1) {
		return r, err
	}
	panic("pubsub: RequestMany yields a reply or an error")
}

// RequestMany is Request for several replies, which it yields as they arrive, one of each subscriber: n replies or,
// with n = 0, one of each subscriber known when the request is published. If there are fewer, the last thing yielded
// is an error: a *NoReplyError if a subscriber did not reply.
func (b *Bus) RequestMany(ctx context.Context, topic string, msg []byte, n int) iter.Seq2[Reply, error] {
	return func(yield func(Reply, error) bool) {
		if n < 0 {
			yield(Reply{}, fmt.Errorf("pubsub: request on %q: %d replies are wanted: give 1 or more, or 0 for one of each subscriber", topic, n))
			return
		}
		p, err := b.Publisher(topic)
		if err != nil {
			yield(Reply{}, err)
			return
		}
		defer p.p.Release(p.topic)
		q, err := p.inquire(ctx, msg)
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
			if !yield(Reply{Data: r.Data, Responder: events.ID(r.Receiver), Name: r.Name,
				Address: r.Address, Tag: r.Tag, After: r.After},
				nil) {
				return
			}
		}
	}
}

// inquire publishes a request. The result collects the replies.
func (p *Publisher) inquire(ctx context.Context, msg []byte) (*engine.Inquiry, error) {
	q, err := p.p.Request(ctx, p.topic, msg)
	if errors.Is(err, ErrNoResponders) || err != nil && ctx != nil && ctx.Err() != nil {
		return nil, requestError(p.topic.Name, topics.RequestState{}, err)
	}
	return q, p.failed("request on", err)
}

// requestError is why a request on topic ended early.
func requestError(topic string, st topics.RequestState, err error) error {
	switch {
	case errors.Is(err, engine.ErrNoneLeft):
		err = ErrNoResponders
	case !errors.Is(err, ErrNoResponders) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded):
		return failed("request on", topic, err)
	case st.Sent && st.Subscribers == 0: // buses that may subscribe did not confirm it
		err = fmt.Errorf("%w: %w", ErrNoResponders, err)
	}
	return &NoReplyError{Topic: topic, Subscribers: st.Subscribers, Heard: st.Heard, Answered: st.Answered,
		Gone: st.Gone, Err: publicError(err)}
}

// IsRequest reports whether the publisher of the message waits for replies: Respond sends one.
func (m Message) IsRequest() bool { return engine.AskedOf(m.from) != nil }

// Respond replies to a request with data, which it copies, of up to 16 MiB. It does not wait for the requester, and
// may be called at any time: in a handler, after it has returned, and by any goroutine. Each bus replies to a request
// once, whichever of its subscriptions does: later calls return ErrAnswered. A message that is not a request returns
// ErrNoRequest. If the requester has ended or fallen silent, the error is ErrRequesterGone; a requester that merely
// stopped waiting is not detected.
//
// The bus keeps the reply for 10 s, so that the requester can request it again, and at most 32 MiB of replies in each
// group. Closing the subscription or the bus waits a moment for that (Bus.Close).
func (m Message) Respond(data []byte) error {
	asked := engine.AskedOf(m.from)
	if asked == nil {
		return failed("respond to a message of", m.Topic, ErrNoRequest)
	}
	return failed("respond to a request on", m.Topic, asked.Respond(data))
}

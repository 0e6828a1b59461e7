package pubsub

import (
	"context"
	"errors"
	"iter"
	"net"
	"slices"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
)

// Message is a message as it is delivered.
type Message struct {
	Topic string
	// Data is valid until the next message of the subscription is asked for, or the handler returns; where the
	// subscription is closed meanwhile, for 10 s, or less if many are closed so. Clone what must be kept. It is read-only:
	// all subscriptions of the bus get the same bytes.
	Data []byte
	// Number counts the messages of this publisher on this topic from 0.
	Number uint64

	// With seven words a message and an error are passed to a handler in registers. Another
	// word, and each call costs a copy through memory: a tenth more (TestMessageFitsRegisters).
	from *reliable.Origin
}

// Publisher is the bus that published it; 0 if the program made the message itself.
func (m Message) Publisher() PublisherID {
	if m.from == nil {
		return 0
	}
	return PublisherID(m.from.Publisher)
}

// Epoch is the number of the run of that bus. Each start of a bus has another one, and buses of one Config.Name that
// run side by side do: which is the greater means nothing. Numbers and their order belong to one Publisher and Epoch.
func (m Message) Epoch() uint64 {
	if m.from == nil {
		return 0
	}
	return m.from.Epoch
}

// PublisherName is the Config.Name of the bus that published it, as its heartbeats say it:
// empty if it has none, or before the first one was heard.
func (m Message) PublisherName() string {
	if m.from == nil {
		return "" // made by the program, not delivered
	}
	return m.from.Name
}

// IsState reports whether it is no message, but a part of the topic's state as of all messages before Number (From).
func (m Message) IsState() bool { return m.from != nil && m.from.State != reliable.StateOfNone }

// IsStateEnd reports whether it says, without data, that the topic's state is whole: message
// Number follows. IsState is true as well.
func (m Message) IsStateEnd() bool { return m.from != nil && m.from.State == reliable.StateEnd }

// Clone returns a message with a copy of the data.
func (m Message) Clone() Message {
	m.Data = slices.Clone(m.Data)
	return m
}

// SubscribeOption changes a subscription.
type SubscribeOption func(*subscribeOptions)

type subscribeOptions struct {
	topics []string
	slow   slowOptions
	from   Start
	events bool
}

// Topics adds topics and patterns to the subscription.
func Topics(names ...string) SubscribeOption {
	return func(o *subscribeOptions) { o.topics = append(o.topics, names...) }
}

// PublisherEvents delivers, in the order of each publisher's messages, a *PublisherEvent as an error when a publisher
// comes up, ends, gets lost or restarts. Those that are up already come up at once.
func PublisherEvents() SubscribeOption {
	return func(o *subscribeOptions) { o.events = true }
}

// Subscription delivers the messages of one or several topics, or of all that match patterns. Read it with Messages or
// Next, in one goroutine.
type Subscription struct {
	bus    *Bus
	s      *engine.Subscription
	one    *engine.Subscription // s, if it is read as it is: no worker calls its handler, and it is not conflated
	d      engine.Delivery
	topic  string // the first one
	from   Start
	policy string             // for when it reads too slowly, as inspection shows it
	number uint64             // 1 is the first of the bus
	worker *engine.Worker     // calls its handler; nil: the bus does, or there is none
	newest *engine.Conflation // keeps the newest message of each key; nil: all are delivered
}

// Subscribe subscribes to topic, and to those that Topics adds. Each may be a pattern, as CheckPattern has it: then
// every topic that matches is delivered, also one that is new, from its first message on. Message.Topic is the topic
// itself. A message comes once, however many topics and patterns of the subscription match.
//
// A pattern joins all groups in which topics that match can be: with map=hash, the default, all of the fabric. What is
// received in them and not wanted is counted, see stats.Group.UnwantedRuns; map=prefix:K and map=table:FILE of the URL
// keep topics that belong together in few groups. Names of topics that exist are asked for, which takes a round trip or
// a little more. Where the bus receives a group already Subscribe returns when they are known, so that others need not
// wait, at the latest after some times Config.RecoveryDeadline; otherwise messages wait for them. Where no name comes,
// a *GapError with CauseUnnamed says so.
//
// Patterns know 131,072 topics of each group, whether or not they match. What is published on others of the group is
// a *GapError with CauseTooManyTopics, and the log says so once: with more topics use more groups (groups= in
// the URL), or subscribe to them by their names.
func (b *Bus) Subscribe(topic string, options ...SubscribeOption) (*Subscription, error) {
	return b.subscribe(topic, options, nil)
}

// Handler takes what a subscription delivers: a message, or an error as Messages yields it. The message's data is valid
// until it returns, and is read-only, for others get the same bytes: Clone what must be kept or changed.
type Handler func(msg Message, err error)

// Handle subscribes with a handler, which the bus calls from its own goroutine as soon as a message is in order,
// without a copy: the lowest latency. A handler must not block, for it holds up everything on the bus: one that
// takes more than a second is named in the log and by events.HandlerSlow. What waits for the bus returns
// ErrInHandler there. It publishes on its own bus: another one of the same fabric may wait until this one has
// received, which waits for the handler. It must return: one that ends its goroutine by runtime.Goexit, as FailNow,
// Fatal and Skip of a test do, and require of testify, ends the bus. Its calls and subscriptions then return an error
// that says so. A panic crashes the program, as anywhere else.
//
// With SlowGap, SlowLatest, SlowEvict or Conflate the handler has a goroutine of its own instead, which reads the
// stream's window as Next does. It may take its time and use the bus; only what waits for handlers to return, Close
// and Shutdown, is ErrInHandler there. One that takes seconds is named, too. The last call has the error with which
// the subscription ended, if it was not closed. One that ends its goroutine ends its subscription only, without
// such a call: Err says why.
func (b *Bus) Handle(topic string, handler Handler, options ...SubscribeOption) (*Subscription, error) {
	if handler == nil {
		return nil, errors.New("pubsub: Handle needs a handler")
	}
	return b.subscribe(topic, options, handler)
}

// inPlace is a handler as the bus's own goroutine calls it.
type inPlace Handler

// Message implements engine.Handler.
func (h inPlace) Message(from *reliable.Origin, t *topics.Track, number uint64, data []byte) {
	h(message(from, t, number, data), nil)
}

// Run implements engine.Handler.
func (h inPlace) Run(from *reliable.Origin, t *topics.Track, number uint64, body []byte, step,
	most int) ([]byte, uint64) {
	m := message(from, t, number, nil)
	for {
		data, rest, ok := topics.NextMessage(body, step, most)
		if !ok {
			return body, number
		}
		m.Data, m.Number = data, number
		h(m, nil)
		body = rest
		number++
	}
}

// Other implements engine.Handler.
func (h inPlace) Other(d *engine.Delivery) { h(public(d)) }

func (b *Bus) subscribe(topic string, options []SubscribeOption, handler Handler) (*Subscription, error) {
	o, err := b.subscribeOptions(topic, options)
	if err != nil {
		return nil, failed("subscribe to", topic, err)
	}
	policy, err := o.slow.policy()
	if err != nil {
		return nil, err
	}
	slices.Sort(o.topics)
	topics, err := b.topicNames(slices.Compact(o.topics))
	if err != nil {
		return nil, err
	}
	ownGoroutine := handler != nil && (policy.OwnGoroutine() || o.slow.conflates)
	var called engine.Handler
	if handler != nil && !ownGoroutine {
		called = inPlace(handler)
	}
	s, err := b.loop.Subscribe(topics, policy, o.from.from(b, o.events).From, o.events, called)
	if err != nil {
		return nil, subscribeError(topic, err)
	}
	sub := &Subscription{bus: b, s: s, topic: topic, from: o.from, policy: o.slow.text()}
	call := func(d *engine.Delivery) { handler(public(d)) }
	if o.slow.conflates {
		sub.newest = s.Conflate(o.slow.conflationKey(), o.slow.limits)
	}
	switch {
	case ownGoroutine && sub.newest != nil:
		sub.worker = sub.newest.StartWorker(call)
	case ownGoroutine:
		sub.worker = s.StartWorker(call)
	}
	if sub.worker == nil && sub.newest == nil {
		sub.one = s
	}
	b.add(sub)
	return sub, nil
}

// subscribeError is why a subscription of first and maybe other topics was refused.
func subscribeError(first string, err error) error {
	var topic *engine.TopicError
	if errors.As(err, &topic) {
		return failed("subscribe to", topic.Topic, topic.Err)
	}
	return failed("subscribe to", first, err)
}

// public turns a delivery into what a user sees.
func public(d *engine.Delivery) (Message, error) {
	switch {
	case d.Err != nil:
		return Message{}, publicError(d.Err)
	case d.Event != nil:
		e := PublisherEvent(publicEvent(*d.Event))
		return Message{}, &e
	case d.Gap():
		return Message{}, gapError(d)
	case d.State == reliable.StateMissing:
		return Message{}, stateError(d)
	case d.State != reliable.StateOfNone:
		from := *d.From
		from.State = d.State
		return message(&from, d.Topic, d.Number, d.Data), nil
	}
	return message(d.From, d.Topic, d.Number, d.Data), nil
}

func message(from *reliable.Origin, t *topics.Track, number uint64, data []byte) Message {
	return Message{Topic: t.Name, Data: data, Number: number, from: from}
}

// Next waits for the next message. Its data is valid until the next call of Next, and read-only.
//
// An error that matches ErrGap (a *GapError), ErrNoState (a *StateError), ErrTopicCollision or ErrPublisherRefused, or
// is a *PublisherEvent, stands in the stream in place of a message: go on reading. One of the context's, which matches
// its cause too, says that nothing arrived in time: read on with another context if you like. With a context that has
// already ended, Next returns a message if one is there and does not wait; now and then it returns the context's error
// although messages are there. Any other error is final, such as one that matches net.ErrClosed.
func (s *Subscription) Next(ctx context.Context) (m Message, err error) {
	if s.one != nil {
		if from, t, number, data := s.one.Following(); t != nil {
			// Field by field: see NextBatch.
			m.Topic, m.Data, m.Number, m.from = t.Name, data, number, from
			return m, nil
		}
	}
	if err := s.next(ctx); err != nil {
		return Message{}, s.failed("read", err)
	}
	return public(&s.d)
}

// next waits for the next delivery.
func (s *Subscription) next(ctx context.Context) error {
	switch {
	case s.one != nil:
		return s.one.Next(ctx, &s.d)
	case s.worker != nil:
		return engine.ErrHandled
	case s.newest != nil:
		return s.newest.Next(ctx, &s.d)
	}
	return errNotMade
}

// NextBatch waits for the next message as Next does, and takes with it those that came in the same packet, as many as
// msgs has room for: cheaper than one by one. It returns how many messages it has written to msgs; their data is valid
// until the next call, and read-only. Errors are those of Next.
func (s *Subscription) NextBatch(ctx context.Context, msgs []Message) (int, error) {
	if len(msgs) == 0 {
		return 0, errors.New("pubsub: NextBatch needs room for a message")
	}
	if err := s.unreadable(); err != nil {
		return 0, s.failed("read", err)
	}
	if s.newest != nil {
		return s.newestBatch(ctx, msgs)
	}
	n := 1
	more := func(t *topics.Track, number uint64, body []byte, step, most int) ([]byte, uint64) {
		i, from := 1, s.d.From
		for ; i < len(msgs); i++ {
			data, rest, ok := topics.NextMessage(body, step, most)
			if !ok {
				break
			}
			// Field by field: a value made on the stack first would be copied in
			// larger pieces than it was written, for which the processor waits.
			m := &msgs[i]
			m.Topic, m.Data, m.Number, m.from = t.Name, data, number, from
			body = rest
			number++
		}
		n = i
		return body, number
	}
	err := s.one.NextBatch(ctx, &s.d, more)
	if err != nil {
		return 0, s.failed("read", err)
	}
	if msgs[0], err = public(&s.d); err != nil {
		return 0, err
	}
	return n, nil
}

// failed is why the subscription cannot be read, or has ended.
func (s *Subscription) failed(call string, err error) error {
	if errors.Is(err, net.ErrClosed) {
		err = errSubscriptionClosed
	}
	return failed(call, s.topic, err)
}

// Messages yields messages as they come, until ctx ends or the subscription is closed. The data of a message is valid
// until the next one, and read-only: Clone what must be kept or changed.
//
// An error is yielded in place of a message: a *GapError, a *TopicCollisionError, a *PublisherRefusedError, or with
// PublisherEvents a *PublisherEvent, and the stream goes on behind it. When the subscription fails, its error is the
// last thing yielded; the end of ctx and Close end the sequence without an error.
func (s *Subscription) Messages(ctx context.Context) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for {
			if s.one != nil {
				if from, t, number, data := s.one.Following(); t != nil {
					if !yield(message(from, t, number, data), nil) {
						return
					}
					continue
				}
			}
			if err := s.next(ctx); err != nil {
				if (ctx == nil || ctx.Err() == nil) && !errors.Is(err, net.ErrClosed) {
					yield(Message{}, s.failed("read", err))
				}
				return
			}
			if !yield(public(&s.d)) {
				return
			}
		}
	}
}

// Err is why the subscription ended: nil while it runs, an error that matches net.ErrClosed after Close, or the error
// of the fabric. A subscription with a handler has no other way to report it.
func (s *Subscription) Err() error { return s.failed("subscription of", s.err()) }

// Done is closed when the subscription has ended.
func (s *Subscription) Done() <-chan struct{} { return s.s.Ended() }

// Close ends the subscription. It is idempotent. It waits for the goroutine that runs its handler, and for replies
// that were given as Bus.Close does, for a second at most: from within a handler of the bus it returns ErrInHandler
// and changes nothing.
func (s *Subscription) Close() error {
	err := s.close()
	if !errors.Is(err, ErrInHandler) && !errors.Is(err, errNotMade) {
		s.bus.remove(s)
		s.worker.Wait(context.Background())
		s.newest.Wait(context.Background())
	}
	return s.failed("close subscription of", err)
}

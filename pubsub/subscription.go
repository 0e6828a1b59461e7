package pubsub

import (
	"context"
	"errors"
	"iter"
	"net"
	"slices"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Message is a delivered message.
type Message struct {
	Topic string
	// Data is valid until the next message of the subscription is requested, or the handler returns. If the subscription
	// is closed before that, it stays valid for 10 s, or less if many are closed this way. Use Clone to keep it. It is
	// read-only: all subscriptions of the bus share the bytes.
	Data []byte
	// Number counts the messages of this publisher and epoch on this topic from 0.
	Number uint64

	// Seven words: a message and an error are passed to a handler in registers. With another word each call copies
	// through memory, a tenth slower (TestMessageFitsRegisters).
	from *reliable.Origin
}

// Publisher is the id of the bus that published it; 0 if the program made the message itself.
func (m Message) Publisher() PublisherID {
	if m.from == nil {
		return 0
	}
	return m.from.Publisher
}

// Epoch identifies the run of that bus: each start has another epoch, also for buses of one Config.Name that run at
// the same time. Epochs are not ordered in time. Message numbers belong to one Publisher and Epoch.
func (m Message) Epoch() events.ID {
	if m.from == nil {
		return 0
	}
	return m.from.Epoch
}

// PublisherName is the Config.Name of the bus that published it, from its heartbeats: empty if it has none, or before
// the first heartbeat.
func (m Message) PublisherName() string {
	if m.from == nil {
		return "" // made by the program, not delivered
	}
	return m.from.Name
}

// IsState reports whether it is a record of the topic's state rather than a message: the state after all messages
// before Number (From).
func (m Message) IsState() bool { return m.from != nil && m.from.State != reliable.StateOfNone }

// IsStateEnd reports whether it marks the end of the topic's state: it has no data, and message Number follows.
// IsState is true as well.
func (m Message) IsStateEnd() bool { return m.from != nil && m.from.State == reliable.StateEnd }

// Clone returns a message with a copy of the data.
func (m Message) Clone() Message {
	m.Data = slices.Clone(m.Data)
	return m
}

// SubscribeOption is an option of Subscribe and Handle.
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

// PublisherEvents delivers a *PublisherEvent as an error, in order with the publisher's messages, when a publisher
// comes up, ends, is lost or restarts. Publishers that are already up are reported immediately.
func PublisherEvents() SubscribeOption {
	return func(o *subscribeOptions) { o.events = true }
}

// Subscription delivers the messages of one or several topics, or of all topics that match patterns. Read it with
// Messages, Next or NextBatch, in one goroutine, unless it has a handler.
type Subscription struct {
	bus    *Bus
	s      *engine.Subscription
	one    *engine.Subscription // s, if it is read directly: without a worker and not conflated
	d      engine.Delivery
	topic  string // the first one
	from   Start
	policy string             // the slow-consumer policy, as inspection shows it
	number uint64             // counts the subscriptions of the bus from 1
	worker *engine.Worker     // calls the handler; nil: the bus's goroutine calls it, or there is none
	newest *engine.Conflation // keeps the newest message of each key; nil: all are delivered
}

// Subscribe subscribes to topic, and to those that Topics adds. Each may be a pattern (CheckPattern): then every
// matching topic is delivered, new topics from their first message on. Message.Topic is the topic itself. A message
// is delivered once, however many topics and patterns of the subscription match.
//
// A pattern joins all groups in which matching topics can be: with map=hash, the default, all groups of the fabric.
// Messages received there of other topics are counted in stats.Group.UnwantedRuns; map=prefix:K and map=table:FILE of
// the URL keep related topics in few groups. The bus requests the names of existing topics, which takes about a round
// trip. If it already receives a group, Subscribe returns when the names are known, at the latest after several times
// Config.RecoveryDeadline. Messages do not wait for names: from a publisher found later, a topic is delivered from
// where its name is in the stream.
//
// A bus can know the names of 131,072 topics of each group at a time for patterns, matching or not; it forgets those of
// a publisher that are idle while 126,976 other ones are named. Messages on further topics of the group are a *GapError
// with CauseTooManyTopics, which the log reports once: use more groups (groups= in the URL), or subscribe to the topics
// by their names.
func (b *Bus) Subscribe(topic string, options ...SubscribeOption) (*Subscription, error) {
	return b.subscribe(topic, options, nil)
}

// Handler receives what a subscription delivers: a message, or an error as Messages yields it. The message's data is
// valid until the handler returns, and is read-only, because subscriptions share the bytes: use Clone to keep or
// change it.
type Handler func(msg Message, err error)

// Handle subscribes with a handler, which the bus calls from its own goroutine as soon as a message is in order,
// without a copy: the lowest latency. A handler must not block, because it holds up everything on the bus: one that
// takes more than a second is reported by the log and events.HandlerSlow. Calls that wait for the bus return
// ErrInHandler there. A handler may publish on its own bus only: publishing on another bus of the same fabric may
// wait until this bus has received, which waits for the handler. A handler must not end its goroutine with
// runtime.Goexit, as FailNow, Fatal and Skip of a test do, and require of testify: that ends the bus, and its calls
// and subscriptions then return an error that says so. A panic crashes the program.
//
// With SlowGap, SlowLatest, SlowEvict or Conflate the handler has its own goroutine, which reads the stream's window
// as Next does. It may block and use the bus; only Close and Shutdown, which wait for handlers to return, return
// ErrInHandler there. A call that takes seconds is reported, too. The last call has the error with which the
// subscription ended, unless it was closed. A handler that ends this goroutine ends only its subscription, without
// that last call: Err has the reason.
func (b *Bus) Handle(topic string, handler Handler, options ...SubscribeOption) (*Subscription, error) {
	if handler == nil {
		return nil, errors.New("pubsub: Handle needs a handler")
	}
	return b.subscribe(topic, options, handler)
}

// inPlace is a handler that the bus's own goroutine calls.
type inPlace Handler

// Message implements engine.Handler.
func (h inPlace) Message(from *reliable.Origin, t *topics.Track, number uint64, data []byte) {
	h(message(from, t, number, data), nil)
}

// Run implements engine.Handler.
func (h inPlace) Run(from *reliable.Origin, t *topics.Track, number uint64, body []byte, step,
	max int) ([]byte, uint64) {
	m := message(from, t, number, nil)
	for {
		data, rest, ok := topics.NextMessage(body, step, max)
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
	var direct engine.Handler
	if handler != nil && !ownGoroutine {
		direct = inPlace(handler)
	}
	s, err := b.loop.Subscribe(topics, policy, o.from.from(b, o.events).From, o.events, direct)
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

// subscribeError is the error of a refused subscription. It names the topic that err is about, or else first.
func subscribeError(first string, err error) error {
	var topic *engine.TopicError
	if errors.As(err, &topic) {
		return failed("subscribe to", topic.Topic, topic.Err)
	}
	return failed("subscribe to", first, err)
}

// public converts a delivery to what a user receives.
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
// An error that matches ErrGap (a *GapError), ErrNoState (a *StateError), ErrTopicCollision or ErrPublisherRefused,
// or is a *PublisherEvent, is delivered in place of a message: continue to read. An error of the context, which
// matches its cause too, means that no message arrived in time: Next may be called again with another context. With a
// context that has already ended, Next does not wait: it returns a message if one is there, but occasionally the
// context's error although messages are there. Any other error is final, such as one that matches net.ErrClosed.
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

// NextBatch waits for the next message as Next does, and also returns those that arrived in the same packet, as many
// as msgs has room for: cheaper than one by one. It returns the number of messages written to msgs; their data is
// valid until the next call, and read-only. Errors are those of Next.
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
	more := func(t *topics.Track, number uint64, body []byte, step, max int) ([]byte, uint64) {
		i, from := 1, s.d.From
		for ; i < len(msgs); i++ {
			data, rest, ok := topics.NextMessage(body, step, max)
			if !ok {
				break
			}
			// Field by field: a composite literal is written in small pieces and then copied in larger ones, which stalls the
			// processor's store forwarding.
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

// failed adds the call and the topic to err. It returns nil if err is nil.
func (s *Subscription) failed(call string, err error) error {
	if errors.Is(err, net.ErrClosed) {
		err = errSubscriptionClosed
	}
	return failed(call, s.topic, err)
}

// Messages yields messages as they arrive, until ctx ends or the subscription is closed. The data of a message is
// valid until the next one, and read-only: use Clone to keep or change it.
//
// Errors are yielded in place of messages: a *GapError, a *StateError, a *TopicCollisionError, a
// *PublisherRefusedError, or with PublisherEvents a *PublisherEvent; the stream continues after them. If the
// subscription fails, its error is the last thing yielded; the end of ctx and Close end the sequence without an error.
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

// Err is the reason why the subscription ended: nil while it runs, an error that matches net.ErrClosed after Close,
// or the error of the fabric.
func (s *Subscription) Err() error { return s.failed("subscription of", s.err()) }

// Done is closed when the subscription has ended.
func (s *Subscription) Done() <-chan struct{} { return s.s.Ended() }

// Close ends the subscription. It is idempotent. It waits for the goroutine that runs its handler, and for replies as
// Bus.Close does, at most a second. From a handler of the bus it returns ErrInHandler and changes nothing.
func (s *Subscription) Close() error {
	err := s.close()
	if !errors.Is(err, ErrInHandler) && !errors.Is(err, errNotMade) {
		s.bus.remove(s)
		s.worker.Wait(context.Background())
		s.newest.Wait(context.Background())
	}
	return s.failed("close subscription of", err)
}

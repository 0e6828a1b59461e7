package contenders

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// subscribe subscribes one subscriber, in the way that the specification asks for. What
// it returns waits until all publishers have ended.
func subscribe(ctx context.Context, r *worker.Run, bus *pubsub.Bus) (func(context.Context) error, error) {
	in := newIncoming(r, bus)
	take := in.take(r.Spec.Receive)
	if take == nil {
		return in.handle(bus)
	}
	sub, err := bus.Subscribe(in.topics[0], in.options()...)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() { // ends with the publishers or ctx
		defer close(done)
		for {
			if err := take(ctx, sub); ctx.Err() != nil || !in.deliver(err) {
				return
			}
		}
	}()
	return func(ctx context.Context) error { return await(ctx, done) }, nil
}

// incoming is one subscriber's messages and the ends of its publishers.
type incoming struct {
	*worker.Receiver
	plain  bool     // messages are checked, and nothing else
	topics []string // that it takes
	ends   int      // of publishers, each in each group of the topics
	ended  map[ending]bool
}

// ending is the end of a publisher in a group.
type ending struct {
	publisher pubsub.PublisherID
	group     string
}

func newIncoming(r *worker.Run, bus *pubsub.Bus) *incoming {
	in := &incoming{Receiver: r.Receiver(false), plain: r.Spec.Load == worker.LoadFull, ended: make(map[ending]bool)}
	groups := make(map[int]bool)
	for _, name := range in.Names() {
		in.topics = append(in.topics, name)
		groups[bus.Group(name)] = true
	}
	in.ends = len(groups) * max(r.Spec.Buses, 1)
	if r.Spec.Wildcard {
		in.topics = []string{">"}
	}
	return in
}

func (in *incoming) options() []pubsub.SubscribeOption {
	return []pubsub.SubscribeOption{pubsub.Topics(in.topics[1:]...), pubsub.PublisherEvents()}
}

// deliver takes what came in place of a message. It reports whether more is to come.
func (in *incoming) deliver(err error) bool {
	var gap *pubsub.GapError
	var event *pubsub.PublisherEvent
	switch {
	case errors.As(err, &gap):
		in.Gap(gap.Topic, gap.First, gap.Count)
		return true
	case errors.As(err, &event) && event.Kind == events.PublisherUp:
		return true
	case errors.As(err, &event) && event.Kind == events.PublisherEnded:
		in.ended[ending{event.Publisher, event.Group}] = true
		return len(in.ended) < in.ends
	}
	in.Bad(err.Error())
	return false
}

// handle takes messages where the bus has them.
func (in *incoming) handle(bus *pubsub.Bus) (func(context.Context) error, error) {
	done := make(chan struct{})
	end := sync.OnceFunc(func() { close(done) })
	other := func(m pubsub.Message, err error) {
		switch {
		case err == nil:
			in.On(m.Topic, m.Data)
		case !in.deliver(err):
			end()
		}
	}
	handler := other
	if check := in.Check; in.plain && check != nil {
		handler = func(m pubsub.Message, err error) {
			if err != nil {
				other(m, err)
				return
			}
			check.Message(m.Data)
		}
	}
	if topics := in.Receiver.Topics; in.plain && topics != nil {
		handler = func(m pubsub.Message, err error) {
			if err != nil {
				other(m, err)
				return
			}
			topics.Message(m.Topic, m.Data)
		}
	}
	_, err := bus.Handle(in.topics[0], handler, in.options()...)
	return func(ctx context.Context) error { return await(ctx, done) }, err
}

// take is how a goroutine takes messages, until something comes in place of one. It is nil where the bus calls a handler.
func (in *incoming) take(receive worker.Receive) func(context.Context, *pubsub.Subscription) error {
	switch receive {
	case worker.ReceiveMessages:
		return in.messages
	case worker.ReceiveNext:
		return in.next
	case worker.ReceiveBatch:
		return in.nextBatch
	}
	return nil
}

// messages ranges over messages. It returns what came in place of one.
func (in *incoming) messages(ctx context.Context, sub *pubsub.Subscription) error {
	check := in.Check
	plain := in.plain && check != nil
	for m, err := range sub.Messages(ctx) {
		switch {
		case err != nil:
			return err
		case plain:
			check.Message(m.Data)
		default:
			in.On(m.Topic, m.Data)
		}
	}
	return context.Cause(ctx)
}

// next takes messages one by one. It returns what came in place of one.
func (in *incoming) next(ctx context.Context, sub *pubsub.Subscription) error {
	check := in.Check
	for plain := in.plain && check != nil; ; {
		m, err := sub.Next(ctx)
		switch {
		case err != nil:
			return err
		case plain:
			check.Message(m.Data)
		default:
			in.On(m.Topic, m.Data)
		}
	}
}

// batchSize is how many messages NextBatch may take at once.
const batchSize = 256

// nextBatch takes messages by the batch. It returns what came in place of one.
func (in *incoming) nextBatch(ctx context.Context, sub *pubsub.Subscription) error {
	check, msgs := in.Check, make([]pubsub.Message, batchSize)
	for plain := in.plain && check != nil; ; {
		n, err := sub.NextBatch(ctx, msgs)
		switch {
		case err != nil:
			return err
		case plain:
			for i := range msgs[:n] {
				check.Message(msgs[i].Data)
			}
		default:
			for i := range msgs[:n] {
				in.On(msgs[i].Topic, msgs[i].Data)
			}
		}
	}
}

func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// subscribeExtra makes the subscriptions to other topics, on which nothing is published.
// Those that are read have a goroutine each. Call what it returns at the end: it closes
// the bus and waits for them.
func subscribeExtra(ctx context.Context, r *worker.Run, bus *pubsub.Bus) (stop func(), err error) {
	var readers sync.WaitGroup
	stop = func() {
		bus.Close()
		readers.Wait()
	}
	read := slices.Contains([]worker.Receive{worker.ReceiveMessages, worker.ReceiveNext, worker.ReceiveBatch}, r.Spec.Receive)
	for i := range r.Spec.Extra {
		topic := fmt.Sprintf("%s.extra.%d", r.Spec.Topic, i)
		if !read {
			if _, err := bus.Handle(topic, func(pubsub.Message, error) {}); err != nil {
				stop()
				return nil, err
			}
			continue
		}
		sub, err := bus.Subscribe(topic)
		if err != nil {
			stop()
			return nil, err
		}
		readers.Go(func() {
			for {
				if _, err := sub.Next(ctx); err != nil && !errors.Is(err, pubsub.ErrGap) {
					return
				}
			}
		})
	}
	return stop, nil
}

package contenders

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Subscribe implements worker.Contender.
func (fanfare) Subscribe(ctx context.Context, r *worker.Run) error {
	bus, err := openBus(ctx, r, r.Spec.Wait, r.Spec.Faults())
	if err != nil {
		return err
	}
	defer bus.Close()
	stop, err := serveMetrics(r, bus)
	if err != nil {
		return err
	}
	defer stop()
	for i := range r.Spec.Extra { // nothing is published there
		if _, err := bus.Handle(fmt.Sprintf("%s.extra.%d", r.Spec.Topic, i), func(pubsub.Message, error) {}); err != nil {
			return err
		}
	}
	var all []*incoming
	for range r.Spec.Here() {
		in := newIncoming(r, bus)
		if err := in.subscribe(ctx, r, bus); err != nil {
			return err
		}
		all = append(all, in)
	}
	r.Ready("")
	if r.Spec.Load == worker.LoadIdle {
		if err := r.Idle(ctx); err != nil {
			return err
		}
	}
	for _, in := range all {
		select {
		case <-in.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	subscriberFigures(r, bus)
	return nil
}

// incoming is one subscriber's messages and the ends of its publishers.
type incoming struct {
	*worker.Check
	topics []string // that it takes
	ends   int      // of publishers, each in each group of the topics
	ended  map[ending]bool
	done   chan struct{} // closed when all publishers have ended
}

// ending is the end of a publisher in a group.
type ending struct {
	publisher pubsub.PublisherID
	group     string
}

func newIncoming(r *worker.Run, bus *pubsub.Bus) *incoming {
	in := &incoming{Check: r.Receiver(false), ended: make(map[ending]bool), done: make(chan struct{})}
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

// subscribe subscribes in the way that is asked for.
func (in *incoming) subscribe(ctx context.Context, r *worker.Run, bus *pubsub.Bus) error {
	options := []pubsub.SubscribeOption{pubsub.Topics(in.topics[1:]...), pubsub.PublisherEvents()}
	if r.Spec.Receive == worker.ReceiveHandle {
		handler := in.take
		if check := in.Check; r.Spec.Topics <= 1 {
			handler = func(m pubsub.Message, err error) {
				if err != nil {
					in.take(m, err)
					return
				}
				check.Message(m.Data)
			}
		}
		_, err := bus.Handle(in.topics[0], handler, options...)
		return err
	}
	sub, err := bus.Subscribe(in.topics[0], options...)
	if err != nil {
		return err
	}
	go in.read(ctx, r.Spec.Receive, sub) // ends with the publishers or ctx
	return nil
}

// take takes a message, or the error in place of one.
func (in *incoming) take(m pubsub.Message, err error) {
	if err != nil {
		in.failed(err)
		return
	}
	in.On(m.Topic, m.Data)
}

// failed takes an error. It is a function of its own because errors.As moves its targets to the heap.
func (in *incoming) failed(err error) {
	var gap *pubsub.GapError
	var event *pubsub.PublisherEvent
	switch {
	case errors.As(err, &gap):
		in.Gap(gap.Topic, gap.First, gap.Count)
	case errors.As(err, &event) && event.Kind == events.PublisherUp:
	case errors.As(err, &event) && event.Kind == events.PublisherEnded:
		if in.ended[ending{event.Publisher, event.Group}] = true; len(in.ended) == in.ends {
			in.end()
		}
	default:
		in.Bad(err.Error())
		in.end()
	}
}

// end ends what is still open.
func (in *incoming) end() {
	if !in.over() {
		close(in.done)
	}
}

func (in *incoming) over() bool {
	select {
	case <-in.done:
		return true
	default:
		return false
	}
}

// batchSize is how many messages NextBatch may take at once.
const batchSize = 256

// read reads messages in a goroutine of its own.
func (in *incoming) read(ctx context.Context, receive worker.Receive, sub *pubsub.Subscription) {
	msgs := make([]pubsub.Message, batchSize)
	for ctx.Err() == nil && !in.over() {
		if receive == worker.ReceiveBatch {
			var err error
			for n := 0; err == nil; {
				n, err = sub.NextBatch(ctx, msgs)
				for i := range msgs[:n] {
					in.On(msgs[i].Topic, msgs[i].Data)
				}
			}
			if ctx.Err() == nil {
				in.take(pubsub.Message{}, err)
			}
			continue
		}
		for m, err := range sub.Messages(ctx) {
			if err == nil {
				in.On(m.Topic, m.Data)
				continue
			}
			if ctx.Err() != nil {
				return
			}
			if in.take(m, err); in.over() {
				return
			}
		}
	}
}

// subscriberFigures reports what a bus has counted that subscribes.
func subscriberFigures(r *worker.Run, bus *pubsub.Bus) {
	st := bus.Stats()
	sums := map[string]float64{"overflow": float64(st.Transport.ReceiveOverflow), "receive_calls": float64(st.Transport.ReceiveCalls)}
	for _, g := range st.Groups {
		sums["packets"] += float64(g.Packets)
		sums["missing"] += float64(g.Missing)
		sums["repaired"] += float64(g.Repaired)
		sums["naks"] += float64(g.NAKs)
		sums["duplicates"] += float64(g.Duplicates)
	}
	if st.Repair.Count > 0 {
		sums["repair_p50_us"] = float64(st.Repair.P50) / 1e3
		sums["repair_p99_us"] = float64(st.Repair.P99) / 1e3
	}
	r.Figures(sums)
}

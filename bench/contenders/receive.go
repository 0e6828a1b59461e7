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
	for i := range r.Spec.Extra { // topics without messages
		if _, err := bus.Handle(fmt.Sprintf("%s.extra.%d", r.Spec.Topic, i), func(pubsub.Message, error) {}); err != nil {
			return err
		}
	}
	var all []*incoming
	for range r.Spec.Here() {
		in := newIncoming(ctx, r, bus)
		defer in.end()
		if err := in.subscribe(r, bus); err != nil {
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
		<-in.ctx.Done()
	}
	subscriberFigures(r, bus)
	return context.Cause(ctx)
}

// incoming receives the messages of one subscriber and the ends of its publishers.
type incoming struct {
	*worker.Check
	topics []string // subscribed topics
	ends   int      // expected ends of publishers, counted once in each group of the topics
	ended  map[ending]bool
	ctx    context.Context // cancelled when all publishers have ended, or one cannot be read
	end    context.CancelFunc
}

// ending is the end of a publisher in a group.
type ending struct {
	publisher pubsub.PublisherID
	group     string
}

func newIncoming(ctx context.Context, r *worker.Run, bus *pubsub.Bus) *incoming {
	in := &incoming{Check: r.Receiver(false), ended: make(map[ending]bool)}
	in.ctx, in.end = context.WithCancel(ctx)
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

// subscribe subscribes with the requested receive mode.
func (in *incoming) subscribe(r *worker.Run, bus *pubsub.Bus) error {
	options := []pubsub.SubscribeOption{pubsub.Topics(in.topics[1:]...), pubsub.PublisherEvents()}
	if r.Spec.Receive == worker.ReceiveHandle {
		handler := in.message
		if check := in.Check; r.Spec.Topics <= 1 {
			handler = func(m pubsub.Message, err error) {
				if err == nil {
					check.Message(m.Data)
				} else {
					in.failed(err)
				}
			}
		}
		_, err := bus.Handle(in.topics[0], handler, options...)
		return err
	}
	sub, err := bus.Subscribe(in.topics[0], options...)
	if err != nil {
		return err
	}
	go in.read(r.Spec.Receive, sub) // ends with in.ctx
	return nil
}

// message handles a message, or the error in place of one.
func (in *incoming) message(m pubsub.Message, err error) {
	if err == nil {
		in.On(m.Topic, m.Data)
	} else {
		in.failed(err)
	}
}

// failed handles an error. It is a separate function because errors.As moves its targets to the heap.
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

// batchSize is the maximum number of messages for NextBatch.
const batchSize = 256

// read reads messages in a goroutine.
func (in *incoming) read(receive worker.Receive, sub *pubsub.Subscription) {
	msgs := make([]pubsub.Message, batchSize)
	for in.ctx.Err() == nil {
		if receive == worker.ReceiveBatch {
			n, err := sub.NextBatch(in.ctx, msgs)
			for i := range msgs[:n] {
				in.On(msgs[i].Topic, msgs[i].Data)
			}
			if err != nil && in.ctx.Err() == nil {
				in.failed(err)
			}
			continue
		}
		for m, err := range sub.Messages(in.ctx) {
			if err == nil {
				in.On(m.Topic, m.Data)
			} else {
				in.failed(err)
			}
		}
	}
}

// subscriberFigures reports the counters of a subscribing bus.
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

package contenders

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/pubsub"
)

// The state that publishers keep for who joins: about that of a few order books.
const (
	stateRecords = 64
	stateRecord  = 1024
)

// keepState lets others join p on the way, if the run has such. What it returns takes the
// place of publish.
func keepState(r *worker.Run, p *pubsub.Publisher, publish func([]byte) error) (func([]byte) error, error) {
	if r.Spec.Joins.Subs == 0 {
		return publish, nil
	}
	var mu sync.Mutex // nothing may be published while the state is written
	record := make([]byte, stateRecord)
	err := p.State(func(w *pubsub.StateWriter) error {
		mu.Lock()
		defer mu.Unlock()
		for range stateRecords {
			if err := w.Write(record); err != nil {
				return err
			}
		}
		return nil
	})
	return func(msg []byte) error {
		mu.Lock()
		defer mu.Unlock()
		return publish(msg)
	}, err
}

// Join implements worker.Joiner: a bus for each subscriber.
func (fanfare) Join(ctx context.Context, r *worker.Run) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var buses []*pubsub.Bus
	defer func() {
		for _, bus := range buses {
			bus.Close()
		}
	}()
	for range r.Spec.Joins.Subs {
		bus, err := openBus(ctx, r, r.Spec.Wait, "")
		if err != nil {
			return err
		}
		buses = append(buses, bus)
		if !r.Spec.Joins.Stay {
			continue
		}
		if _, err := bus.Handle(r.Spec.Topic, func(pubsub.Message, error) {}); err != nil {
			return err
		}
	}
	r.Ready("")
	go func() { // ends with the publisher, or ctx
		select {
		case <-r.Stopped():
			cancel()
		case <-ctx.Done():
		}
	}()
	if r.Spec.Joins.Stay {
		<-ctx.Done()
		return nil
	}
	var took []time.Duration
	for ctx.Err() == nil {
		wave := make([]time.Duration, len(buses))
		err := each(len(buses), func(i int) (err error) {
			wave[i], err = joinOnce(ctx, buses[i], r.Spec.Topic)
			return err
		})
		if ctx.Err() == nil && err != nil {
			return err
		}
		if err == nil {
			took = append(took, wave...)
		}
	}
	slices.Sort(took)
	figures := map[string]float64{"joins": float64(len(took))}
	if len(took) > 0 {
		figures["join_p50_us"] = float64(took[len(took)/2]) / 1e3
	}
	r.Figures(figures)
	return nil
}

// joinOnce subscribes with state, and leaves again when it has that and the message that
// follows. It returns how long the state took.
func joinOnce(ctx context.Context, bus *pubsub.Bus, topic string) (took time.Duration, err error) {
	began := time.Now()
	sub, err := bus.Subscribe(topic, pubsub.From(pubsub.State))
	if err != nil {
		return 0, err
	}
	defer sub.Close()
	for took == 0 {
		m, err := sub.Next(ctx)
		var missing *pubsub.StateError
		switch {
		case errors.As(err, &missing) && missing.Cause == pubsub.StatePublisherGone: // the run is over
		case err != nil:
			return 0, err
		case m.IsStateEnd():
			took = time.Since(began)
		}
	}
	_, err = sub.Next(ctx)
	return took, err
}

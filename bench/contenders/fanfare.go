package contenders

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/pubsub"
)

// fanfare is Fanfare. No knob of the bus is touched but, where that is asked for,
// how subscribers wait.
type fanfare struct{}

// lingerTime bounds how long a publisher waits for its subscribers at the end:
// with heavy loss the last repairs take their time.
const lingerTime = 20 * time.Second

func openBus(ctx context.Context, r *worker.Run, wait worker.Wait, faults string) (*pubsub.Bus, error) {
	cfg := pubsub.Config{
		Faults: faults, Wait: pubsub.Wait(wait), Linger: lingerTime,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	return cfg.Open(ctx, r.Spec.URL)
}

// Publish implements worker.Contender.
func (fanfare) Publish(ctx context.Context, r *worker.Run) error {
	bus, err := openBus(ctx, r, "", "")
	if err != nil {
		return err
	}
	defer bus.Close()
	stop, err := serveMetrics(r, bus)
	if err != nil {
		return err
	}
	defer stop()
	if r.Spec.Publisher == worker.PublisherShared {
		p, err := bus.Publisher(r.Spec.Topic)
		if err != nil {
			return err
		}
		return publish(ctx, r, bus, p, func(ctx context.Context, src *worker.Source) error {
			end, chunk := r.Deadline(), r.Chunk()
			for worker.Now() < end && ctx.Err() == nil {
				for range chunk {
					if err := p.Publish(ctx, src.Next()); err != nil {
						return err
					}
				}
			}
			return p.Publish(ctx, src.Last())
		})
	}
	p, err := bus.ExclusivePublisher(r.Spec.Topic)
	if err != nil {
		return err
	}
	return publish(ctx, r, bus, p, func(ctx context.Context, src *worker.Source) error {
		end, chunk := r.Deadline(), r.Chunk()
		for worker.Now() < end && ctx.Err() == nil {
			for range chunk {
				if err := p.Publish(ctx, src.Next()); err != nil {
					return err
				}
			}
		}
		return p.Publish(ctx, src.Last())
	})
}

// publisher is what both kinds of publishers have.
type publisher interface {
	Publish(ctx context.Context, msg []byte) error
	Flush(ctx context.Context) error
	WaitSubscribers(ctx context.Context, n int) error
}

// publish publishes the load; full publishes the full one, with calls of the
// publisher's own type.
func publish(ctx context.Context, r *worker.Run, bus *pubsub.Bus, p publisher, full func(context.Context, *worker.Source) error) error {
	r.Ready("")
	buses := r.Spec.Subs
	if r.Spec.Here > 0 || r.Spec.Role == worker.RoleBoth {
		buses = 1 // one bus holds them all
	}
	if err := p.WaitSubscribers(ctx, buses); err != nil {
		return fmt.Errorf("waiting for subscribers: %w", err)
	}
	if r.Spec.Load == worker.LoadIdle {
		if err := r.Idle(ctx); err != nil {
			return err
		}
		return bus.Close()
	}
	r.Begin()
	var sent uint64
	var err error
	if r.Spec.Load == worker.LoadFull {
		src := worker.NewSource(r.Spec.Size)
		err = full(ctx, src)
		sent = src.Sent()
	} else {
		sent, err = r.Pump(ctx, func(msg []byte) error { return p.Publish(ctx, msg) },
			func() error { return p.Flush(ctx) })
	}
	if err == nil {
		err = p.Flush(ctx)
	}
	r.End(sent)
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	st := bus.Stats()
	for _, x := range st.Publications {
		r.Figure("packets", float64(x.PacketsSent))
		r.Figure("repairs", float64(x.RepairsSent))
		r.Figure("naks", float64(x.NAKs))
		r.Figure("flow_blocked", float64(x.FlowBlocked))
		r.Figure("rtt_us", float64(x.RTT)/1e3)
	}
	r.Figure("send_calls", float64(st.Transport.SendCalls))
	return bus.Close()
}

// Subscribe implements worker.Contender.
func (fanfare) Subscribe(ctx context.Context, r *worker.Run) error {
	bus, err := openBus(ctx, r, r.Spec.Wait, r.Spec.Faults)
	if err != nil {
		return err
	}
	defer bus.Close()
	stop, err := serveMetrics(r, bus)
	if err != nil {
		return err
	}
	defer stop()
	subscribe := handle
	switch r.Spec.Receive {
	case worker.ReceiveNext:
		subscribe = next
	case worker.ReceiveBatch:
		subscribe = nextBatch
	}
	// wait returns when the subscriber's stream has ended.
	var waits []func(context.Context) error
	for range max(r.Spec.Here, 1) {
		wait, err := subscribe(ctx, r, bus)
		if err != nil {
			return err
		}
		waits = append(waits, wait)
	}
	r.Ready("")
	if r.Spec.Load == worker.LoadIdle {
		if err := r.Idle(ctx); err != nil {
			return err
		}
	}
	for _, wait := range waits {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	st := bus.Stats()
	for _, g := range st.Groups {
		r.Figure("packets", float64(g.Packets))
		r.Figure("missing", float64(g.Missing))
		r.Figure("repaired", float64(g.Repaired))
		r.Figure("naks", float64(g.NAKs))
		r.Figure("duplicates", float64(g.Duplicates))
	}
	r.Figure("overflow", float64(st.Transport.ReceiveOverflow))
	r.Figure("receive_calls", float64(st.Transport.ReceiveCalls))
	if st.Repair.Count > 0 {
		r.Figure("repair_p50_us", float64(st.Repair.P50)/1e3)
		r.Figure("repair_p99_us", float64(st.Repair.P99)/1e3)
	}
	return nil
}

// deliver passes on what is delivered. It reports whether the stream goes on.
func deliver(v *worker.Receiver, err error) bool {
	var gap *pubsub.GapError
	var event *pubsub.PublisherEvent
	switch {
	case errors.As(err, &gap):
		v.Check.Gap(gap.First, gap.Count)
		return true
	case errors.As(err, &event) && event.Kind == pubsub.PublisherUp:
		return true
	case errors.As(err, &event) && event.Kind == pubsub.PublisherEnded:
		return false
	}
	v.Check.Bad(err.Error())
	return false
}

// handle takes messages where the bus has them.
func handle(_ context.Context, r *worker.Run, bus *pubsub.Bus) (func(context.Context) error, error) {
	v := r.Receiver(false)
	done := make(chan struct{})
	end := sync.OnceFunc(func() { close(done) })
	check, plain := v.Check, r.Spec.Load == worker.LoadFull
	_, err := bus.Handle(r.Spec.Topic, func(m pubsub.Message, err error) {
		switch {
		case err != nil:
			if !deliver(v, err) {
				end()
			}
		case plain:
			check.Message(m.Data)
		default:
			v.Message(m.Data)
		}
	}, pubsub.PublisherEvents())
	return func(ctx context.Context) error { return await(ctx, done) }, err
}

// next takes messages one by one in a goroutine of its own, which ends with the
// stream or ctx.
func next(ctx context.Context, r *worker.Run, bus *pubsub.Bus) (func(context.Context) error, error) {
	return read(ctx, r, bus, func(sub *pubsub.Subscription, v *worker.Receiver) error {
		check, plain := v.Check, r.Spec.Load == worker.LoadFull
		for {
			m, err := sub.Next(ctx)
			switch {
			case err != nil:
				return err
			case plain:
				check.Message(m.Data)
			default:
				v.Message(m.Data)
			}
		}
	})
}

// batchSize is how many messages NextBatch may take at once.
const batchSize = 256

// nextBatch takes messages by the batch in a goroutine of its own.
func nextBatch(ctx context.Context, r *worker.Run, bus *pubsub.Bus) (func(context.Context) error, error) {
	return read(ctx, r, bus, func(sub *pubsub.Subscription, v *worker.Receiver) error {
		check, plain := v.Check, r.Spec.Load == worker.LoadFull
		msgs := make([]pubsub.Message, batchSize)
		for {
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
					v.Message(msgs[i].Data)
				}
			}
		}
	})
}

// read subscribes, and takes messages with take until the stream ends; take
// returns what came in place of a message.
func read(ctx context.Context, r *worker.Run, bus *pubsub.Bus, take func(*pubsub.Subscription, *worker.Receiver) error) (func(context.Context) error, error) {
	sub, err := bus.Subscribe(r.Spec.Topic, pubsub.PublisherEvents())
	if err != nil {
		return nil, err
	}
	v := r.Receiver(false)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if err := take(sub, v); ctx.Err() != nil || !deliver(v, err) {
				return
			}
		}
	}()
	return func(ctx context.Context) error { return await(ctx, done) }, nil
}

func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

package contenders

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/pubsub"
)

// fanfare is Fanfare. No knob of the bus is touched but, where that is asked for,
// how subscribers wait.
type fanfare struct{}

// Topical implements worker.Topical.
func (fanfare) Topical() {}

// lingerTime bounds how long a publisher waits for its subscribers at the end:
// with heavy loss the last repairs take their time.
const lingerTime = 20 * time.Second

func openBus(ctx context.Context, r *worker.Run, wait worker.Wait, faults string) (*pubsub.Bus, error) {
	f := &r.Spec.Flow
	cfg := pubsub.Config{
		FlowControl: pubsub.FlowControl(f.Control), SlowBehind: f.SlowBehind, SlowFor: f.SlowFor, Rate: f.Rate,
		Faults: faults, Wait: pubsub.Wait(wait), Linger: lingerTime,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	if r.Spec.Sealed {
		keys, err := pubsub.NewKeySet(sealingKey())
		if err != nil {
			return nil, err
		}
		cfg.Keys = pubsub.StaticKeys(keys)
	}
	if r.Spec.Signed {
		cfg.Sign = ed25519.NewKeyFromSeed([]byte("fanfare bench: this is no secret"))
		trusted, err := pubsub.NewTrustSet(pubsub.TrustGrant{Topics: ">", Key: cfg.Sign.Public().(ed25519.PublicKey)})
		if err != nil {
			return nil, err
		}
		cfg.Trust = pubsub.StaticTrust(trusted)
	}
	cfg.Inspect = pubsub.InspectOff
	if r.Spec.LookedAt {
		cfg.Inspect = pubsub.InspectOn
	}
	return cfg.Open(ctx, r.Spec.URL, r.Spec.Legs...)
}

// Publish implements worker.Contender.
func (fanfare) Publish(ctx context.Context, r *worker.Run) error {
	if r.Spec.Many() {
		return publishMany(ctx, r)
	}
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
	p, err := bus.Publisher(r.Spec.Topic)
	if err != nil {
		return err
	}
	if r.Spec.Batch > 0 {
		return publish(ctx, r, bus, p, batches(r, p))
	}
	return publish(ctx, r, bus, p, func(ctx context.Context, src *worker.Source) error {
		end, chunk := r.Deadline(), r.Chunk()
		for r.Lap() < end && ctx.Err() == nil {
			for range chunk {
				if err := p.Publish(ctx, src.Next()); err != nil {
					return err
				}
			}
		}
		return p.Publish(ctx, src.Last())
	})
}

// batches publishes a full load by PublishBatch.
func batches(r *worker.Run, p *pubsub.Publisher) func(context.Context, *worker.Source) error {
	return func(ctx context.Context, src *worker.Source) error {
		end, chunk := r.Deadline(), max(r.Chunk()/r.Spec.Batch, 1)
		for r.Lap() < end && ctx.Err() == nil {
			for range chunk {
				if _, err := p.PublishBatch(ctx, src.Batch()); err != nil {
					return err
				}
			}
		}
		return p.Publish(ctx, src.Last())
	}
}

// publish publishes the load; full publishes the full one.
func publish(ctx context.Context, r *worker.Run, bus *pubsub.Bus, p *pubsub.Publisher, full func(context.Context, *worker.Source) error) error {
	one, err := keepState(r, p, func(msg []byte) error { return p.Publish(ctx, msg) })
	if err != nil {
		return err
	}
	r.Ready("")
	buses := r.Spec.Subs
	if r.Spec.Joins.Stay {
		buses += r.Spec.Joins.Subs
	}
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
	if r.Spec.Load == worker.LoadFull {
		src := r.Source()
		err = full(ctx, src)
		sent = src.Sent()
	} else {
		sent, err = r.Pump(ctx, one, func() error { return p.Flush(ctx) })
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
	publisherFigures(r, bus)
	awaitStopped(ctx, r, p)
	return bus.Close()
}

// awaitStopped waits until the subscribers that were stopped are there again and have what
// there is to have, for at most lingerTime: they would hear of a publisher that is gone.
func awaitStopped(ctx context.Context, r *worker.Run, p *pubsub.Publisher) {
	if r.Spec.Flow.Stopped == 0 {
		return
	}
	there := func() bool {
		all := p.Receivers()
		return len(all) >= r.Spec.Subs && !slices.ContainsFunc(all, func(s pubsub.Receiver) bool { return s.Behind > 0 || s.Released })
	}
	for end := time.Now().Add(lingerTime); !there() && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(10 * time.Millisecond)
	}
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
	stopExtra, err := subscribeExtra(ctx, r, bus)
	if err != nil {
		return err
	}
	defer stopExtra()
	// wait returns when the subscriber's publishers have ended.
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
	subscriberFigures(r, bus)
	return nil
}

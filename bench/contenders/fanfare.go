package contenders

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/metricserver"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/metrics"
)

// fanfare is Fanfare. The bus has default settings except for those in the specification.
type fanfare struct{}

// Topical implements worker.Topical.
func (fanfare) Topical() {}

// lingerTime bounds how long a publisher waits for its subscribers at the end: with heavy loss the
// last repairs take long.
const lingerTime = 20 * time.Second

// openBus opens a bus of a side. The first one serves metrics if the specification has an address,
// until the process ends.
func openBus(ctx context.Context, r *worker.Run, wait worker.Wait, faults string) (*pubsub.Bus, error) {
	cfg := pubsub.Config{
		Faults: faults, Wait: pubsub.Wait(wait), Linger: lingerTime, Inspect: pubsub.InspectOff,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	if r.Spec.Sealed { // with a known key, which protects nothing
		keys, err := pubsub.NewKeySet(pubsub.Key{ID: 1, Secret: sha256.Sum256([]byte("fanfare bench"))})
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
	if r.Spec.Inspected {
		cfg.Inspect = pubsub.InspectOn
	}
	bus, err := cfg.Open(ctx, r.Spec.URL, r.Spec.Legs...)
	if err != nil || r.Spec.Metrics == "" || r.MetricsAddress != "" {
		return bus, err
	}
	s, err := metricserver.Serve(r.Spec.Metrics, metrics.NewCollector(bus))
	if err != nil {
		return nil, errors.Join(err, bus.Close())
	}
	r.MetricsAddress = s.Addr()
	return bus, nil
}

// publishing is a publishing bus, with a publisher for each topic.
type publishing struct {
	bus    *pubsub.Bus
	topics []*pubsub.Publisher
	groups []*pubsub.Publisher // one in each group, for flushing it
}

// Publish implements worker.Contender.
func (fanfare) Publish(ctx context.Context, r *worker.Run) error {
	var all []*publishing
	defer func() {
		for _, p := range all {
			p.bus.Close()
		}
	}()
	for range max(r.Spec.Buses, 1) {
		p, err := newPublishing(ctx, r)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	r.Ready("")
	err := each(len(all), func(i int) error { return all[i].wait(ctx, r) })
	if err != nil {
		return fmt.Errorf("waiting for subscribers: %w", err)
	}
	if r.Spec.Load == worker.LoadIdle {
		err = r.Idle(ctx)
	} else {
		err = publishLoad(ctx, r, all)
		publisherFigures(r, all)
	}
	if err := cmp.Or(err, context.Cause(ctx)); err != nil {
		return err
	}
	// Close waits until the subscribers have everything.
	return each(len(all), func(i int) error { return all[i].bus.Close() })
}

func newPublishing(ctx context.Context, r *worker.Run) (*publishing, error) {
	bus, err := openBus(ctx, r, "", "")
	if err != nil {
		return nil, err
	}
	p := &publishing{bus: bus}
	seen := make(map[int]bool)
	for _, name := range r.Spec.TopicNames() {
		one, err := bus.Publisher(name)
		if err != nil {
			bus.Close()
			return nil, err
		}
		p.topics = append(p.topics, one)
		if g := bus.Group(name); !seen[g] {
			seen[g] = true
			p.groups = append(p.groups, one)
		}
	}
	return p, nil
}

// wait waits for the subscribers of every topic.
func (p *publishing) wait(ctx context.Context, r *worker.Run) error {
	want := r.Spec.Subs
	if r.Spec.Split || r.Spec.Role == worker.RoleBoth {
		want = 1 // with Split one bus subscribes to a topic
	}
	// Groups in parallel: the first topic of each takes some time.
	if err := each(len(p.groups), func(i int) error { return p.groups[i].WaitSubscribers(ctx, want) }); err != nil {
		return err
	}
	for _, t := range p.topics {
		if err := t.WaitSubscribers(ctx, want); err != nil {
			return err
		}
	}
	return nil
}

func (p *publishing) flush(ctx context.Context) error {
	for _, g := range p.groups {
		if err := g.Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// publishLoad publishes the load.
func publishLoad(ctx context.Context, r *worker.Run, all []*publishing) error {
	if r.Spec.Load != worker.LoadFull { // there is one bus
		p := all[0]
		return r.Pump(ctx, func(topic int, msg []byte) error { return p.topics[topic].Publish(ctx, msg) },
			func() error { return p.flush(ctx) })
	}
	perBus := max(r.Spec.Goroutines, 1)
	sources := make([]*worker.Source, r.Spec.Sources())
	for i := range sources {
		sources[i] = r.Source(i)
	}
	r.Begin()
	err := each(len(sources), func(i int) error { return all[i/perBus].publish(ctx, r, sources[i]) })
	r.Published(sources...)
	return err
}

// publish is one goroutine's part of a full load. Calls of function values would cost nanoseconds for each message.
func (p *publishing) publish(ctx context.Context, r *worker.Run, src *worker.Source) error {
	one := p.topics[0]
	for end, chunk := r.Deadline(), r.Chunk(); worker.Now() < end && ctx.Err() == nil; {
		switch {
		case r.Spec.Batch > 0:
			for n := 0; n < chunk; n += r.Spec.Batch {
				if _, err := one.PublishBatch(ctx, src.Batch()); err != nil {
					return err
				}
			}
		case r.Spec.Many():
			for range chunk {
				topic, msg := src.Take()
				if err := p.topics[topic].Publish(ctx, msg); err != nil {
					return err
				}
			}
		default:
			for range chunk {
				if err := one.Publish(ctx, src.Next()); err != nil {
					return err
				}
			}
		}
	}
	topic, msg := src.Last()
	if err := p.topics[topic].Publish(ctx, msg); err != nil {
		return err
	}
	return p.flush(ctx)
}

// publisherFigures reports the counters of all publishing buses together.
func publisherFigures(r *worker.Run, all []*publishing) {
	sums := make(map[string]float64)
	for _, p := range all {
		st := p.bus.Stats()
		for _, x := range st.Publications {
			sums["packets"] += float64(x.PacketsSent)
			sums["repairs"] += float64(x.RepairsSent)
			sums["naks"] += float64(x.NAKs)
			sums["flow_blocked"] += float64(x.FlowBlocked)
			sums["memory_bytes"] += float64(x.MemoryBytes)
			sums["rtt_us"] = max(sums["rtt_us"], float64(x.RTT)/1e3)
		}
		sums["groups"] += float64(len(st.Publications))
		sums["send_calls"] += float64(st.Transport.SendCalls)
	}
	r.Figures(sums)
}

// each calls f for 0 to n-1 concurrently, and joins the errors.
func each(n int, f func(i int) error) error {
	if n == 1 {
		return f(0)
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

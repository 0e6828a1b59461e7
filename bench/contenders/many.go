package contenders

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/pubsub"
)

// publishing is one bus that publishes on many topics, or beside others.
type publishing struct {
	bus    *pubsub.Bus
	topics []*pubsub.Publisher
	groups []*pubsub.Publisher // one of each group, which flushes it
}

// publishMany publishes on many topics, from several goroutines, on several buses.
func publishMany(ctx context.Context, r *worker.Run) error {
	var all []*publishing
	var buses []*pubsub.Bus
	defer func() {
		for _, bus := range buses {
			bus.Close()
		}
	}()
	for range max(r.Spec.Buses, 1) {
		bus, err := openBus(ctx, r, "", "")
		if err != nil {
			return err
		}
		buses = append(buses, bus)
		p, err := newPublishing(r, bus)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	stop, err := serveMetrics(r, buses[0])
	if err != nil {
		return err
	}
	defer stop()
	r.Ready("")
	if err := each(len(all), func(i int) error { return all[i].wait(ctx, r) }); err != nil {
		return fmt.Errorf("waiting for subscribers: %w", err)
	}
	sent, err := publishAll(ctx, r, all)
	if err != nil {
		return err
	}
	r.End(sent)
	publisherFigures(r, buses...)
	// They linger until the subscribers have everything.
	return each(len(buses), func(i int) error { return buses[i].Close() })
}

func newPublishing(r *worker.Run, bus *pubsub.Bus) (*publishing, error) {
	p := &publishing{bus: bus}
	seen := make(map[int]bool)
	for _, name := range r.Spec.TopicNames() {
		one, err := bus.Publisher(name)
		if err != nil {
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
	if r.Spec.Split || r.Spec.Here > 0 || r.Spec.Role == worker.RoleBoth {
		want = 1 // one bus takes the topic
	}
	// Groups one beside the other: the first topic of each takes a while.
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

// publishAll publishes the load and returns how many messages that were.
func publishAll(ctx context.Context, r *worker.Run, all []*publishing) (uint64, error) {
	if r.Spec.Load != worker.LoadFull {
		p := all[0] // there is one
		r.Begin()
		return r.PumpTopics(ctx, func(topic int, msg []byte) error { return p.topics[topic].Publish(ctx, msg) },
			func() error { return p.flush(ctx) })
	}
	perBus := max(r.Spec.Goroutines, 1)
	sources := make([]*worker.TopicSource, r.Spec.Sources())
	for i := range sources {
		sources[i] = r.TopicSource(i)
	}
	r.Begin()
	err := each(len(sources), func(i int) error {
		p := all[i/perBus]
		err := p.publish(ctx, r, sources[i], i/perBus < r.Spec.Slow)
		if err == nil {
			err = p.flush(ctx)
		}
		return err
	})
	var sent uint64
	for _, src := range sources {
		r.Published(src)
		sent += src.Sent()
	}
	return sent, err
}

// publish is one goroutine's part of a full load.
func (p *publishing) publish(ctx context.Context, r *worker.Run, src *worker.TopicSource, slow bool) error {
	end, chunk := r.Deadline(), r.Chunk()
	if slow {
		chunk = 1
	}
	for worker.Now() < end && ctx.Err() == nil {
		for range chunk {
			topic, msg := src.Next()
			if err := p.topics[topic].Publish(ctx, msg); err != nil {
				return err
			}
		}
		if slow {
			time.Sleep(time.Second / worker.SlowRate)
		}
	}
	topic, msg := src.Last()
	if err := p.topics[topic].Publish(ctx, msg); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// each calls f for 0 to n-1, all at once, and returns the first error.
func each(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

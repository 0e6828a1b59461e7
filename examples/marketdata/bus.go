package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/transport/faulty"
)

// This file, state.go and receiver.take contain all uses of Fanfare in the example.

// loopbackURL is a fabric used only by this run: the loopback interface, and its own port, so that concurrent runs do
// not receive each other. It has four groups, because all topics have one publisher: messages in the same group share
// packets.
func loopbackURL() (string, error) {
	all, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("list interfaces: %w", err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 && i.Flags&net.FlagUp != 0 {
			port := 20000 + rand.IntN(10000)
			return fmt.Sprintf("udp://?iface=%s&port=%d&groups=4", i.Name, port), nil
		}
	}
	return "", errors.New("this machine has no loopback interface")
}

// runPublisher is the publisher: it waits for all subscribers, publishes, and ends when they have received everything.
func runPublisher(ctx context.Context, j job, emit func(event) error) error {
	src, err := openSource(j.Config)
	if err != nil {
		return err
	}
	defer src.close()
	bus, err := pubsub.Config{Logger: quiet()}.Open(ctx, j.Config.URL)
	if err != nil {
		return err
	}
	defer bus.Close()

	outlets := make([]outlet, len(j.Plan.Topics))
	publishers := make([]*pubsub.Publisher, len(j.Plan.Topics))
	p := newPublisher(j.Plan, outlets, j.Config.Rate > 0)
	for i, topic := range j.Plan.Topics {
		publishers[i], err = bus.Publisher(topic)
		if err == nil && j.Config.Join > 0 {
			err = publishers[i].State(func(w *pubsub.StateWriter) error { return p.writeState(i, w) })
		}
		if err != nil {
			return err
		}
		outlets[i] = publishers[i]
	}
	if j.Config.Rate == 0 && j.Config.Join == 0 { // joining subscribers need the current books
		if err := src.advance(j.Plan, p.books, maxPrepared); err != nil {
			return err
		}
	}
	// Subscribers that are present receive everything from the first message on.
	if err := waitJoined(ctx, publishers, j.Config.Subscribers); err != nil {
		return err
	}

	if err := emit(event{Kind: kindReady}); err != nil {
		return err
	}
	if err := p.run(ctx, src, func(s *publisherState) error {
		return emit(event{Kind: kindProgress, Publisher: s})
	}); err != nil {
		return err
	}
	if err := waitJoined(ctx, publishers, j.Config.Subscribers+j.Config.Join); err != nil {
		return err
	}
	for _, p := range publishers {
		if err := p.Drain(ctx); err != nil {
			return fmt.Errorf("waiting for subscribers to receive everything: %w", err)
		}
	}
	if err := bus.Shutdown(ctx); err != nil {
		return err
	}
	return emit(event{Kind: kindDone, Publisher: p.done()})
}

// runSubscriber is a subscriber: it receives all topics until the publisher has ended.
func runSubscriber(ctx context.Context, j job, emit func(event) error) error {
	cfg := pubsub.Config{Faults: faultsOf(j), Logger: quiet()}
	if j.Subscriber == 1 { // one warning about this machine is enough; more would disturb the table
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	bus, err := cfg.Open(ctx, j.Config.URL)
	if err != nil {
		return err
	}
	defer bus.Close()
	topics, groups := j.Plan.Topics, map[int]bool{}
	for _, t := range topics {
		groups[bus.Group(t)] = true
	}
	r := newReceiver(topics, len(groups))
	options := []pubsub.SubscribeOption{pubsub.Topics(topics[1:]...), pubsub.PublisherEvents()}
	if j.joins() {
		options = append(options, pubsub.From(pubsub.State))
	}
	// With a handler no message waits for another goroutine.
	over, ended := false, make(chan error, 1)
	var now time.Time
	if _, err := bus.Handle(topics[0], func(msg pubsub.Message, err error) {
		if over {
			return
		}
		if j.Config.Rate > 0 || r.state.Messages%clockEvery == 0 {
			now = time.Now()
		}
		over, err = r.handle(msg, err, now)
		if !over && r.meter.due(now) {
			s := r.progress(now)
			s.Repairs = repairsReceived(bus)
			err = emit(event{Kind: kindProgress, Subscriber: s})
			over = err != nil
		}
		if over {
			ended <- err
		}
	}, options...); err != nil {
		return err
	}
	if err := emit(event{Kind: kindReady}); err != nil {
		return err
	}
	select {
	case err := <-ended:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	state := r.done(time.Now())
	state.Repairs = repairsReceived(bus)
	return emit(event{Kind: kindDone, Subscriber: state})
}

// faultsOf returns the simulated network faults of a subscriber: each one loses different packets.
func faultsOf(j job) string {
	if j.Config.Faults == "" {
		return ""
	}
	f, err := faulty.Parse(j.Config.Faults)
	if err != nil {
		panic(err) // parseFlags has validated it
	}
	f.Seed += uint64(j.Subscriber)
	return f.String()
}

func repairsReceived(bus *pubsub.Bus) (n uint64) {
	for _, g := range bus.Stats().Groups {
		n += g.Repaired
	}
	return n
}

// quiet discards the log of the library.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

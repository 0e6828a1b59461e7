package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

const (
	joinTests  = 50
	joinAtOnce = 10
	joinChecks = 40 // that each stays for
)

// joinFeed is a feed that others can join, on sockets, with loss.
type joinFeed struct {
	cfg  config
	plan *plan
	bus  *pubsub.Bus
	pub  *publisher
	src  source
}

// patience is for how long a subscriber may get no processor: eleven buses share them with other programs.
const patience = time.Minute

func newJoinFeed(t *testing.T, cfg config) *joinFeed {
	t.Helper()
	var err error
	f := &joinFeed{cfg: cfg}
	if f.plan, err = makePlan(cfg); err != nil {
		t.Fatal(err)
	}
	if f.src, err = openSource(cfg, f.plan); err != nil {
		t.Fatal(err)
	}
	if f.bus, err = (pubsub.Config{Logger: quiet(), Faults: "loss=0.01,seed=99", Silence: patience}).Open(t.Context(), cfg.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.bus.Close() })
	outlets, publishers := make([]outlet, len(f.plan.Topics)), make([]*pubsub.Publisher, len(f.plan.Topics))
	f.pub = newPublisher(outlets, cfg.Rate > 0)
	f.pub.joins = newJoinable(job{Config: cfg, Plan: f.plan}, publishers)
	for i, topic := range f.plan.Topics {
		if publishers[i], err = f.bus.Publisher(topic); err != nil {
			t.Fatal(err)
		}
		outlets[i] = publishers[i]
		if err := publishers[i].State(func(w *pubsub.StateWriter) error { return f.pub.writeState(i, w) }); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// subscriber is one of the feed's, from now on or with its state: until its topics have ended, or it has seen enough.
func (f *joinFeed) subscriber(t *testing.T, number int, from pubsub.Start, enough uint64) (r *receiver, wait func() error) {
	t.Helper()
	bus, err := pubsub.Config{Logger: quiet(), Faults: fmt.Sprint("loss=0.01,seed=", number), RecoveryDeadline: patience}.Open(t.Context(), f.cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bus.Close() })
	sub, err := bus.Subscribe(f.plan.Topics[0], pubsub.Topics(f.plan.Topics[1:]...), pubsub.From(from))
	if err != nil {
		t.Fatal(err)
	}
	r = newReceiver(f.plan.Topics, 1<<30)
	ended := make(chan error, 1)
	go func() {
		defer bus.Close()
		for msg, err := range sub.Messages(t.Context()) {
			if over, err := r.take(msg, err, time.Now()); over || r.state.Checks >= enough {
				ended <- err
				return
			}
		}
		ended <- t.Context().Err()
	}()
	return r, func() error { return <-ended }
}

// 50 join over sockets, ten at a time and at 1 % loss, a feed in the middle, at half of the
// rate that it reaches by itself: the books of each equal the publisher's at every number
// that is checked.
func TestFiftyJoinBooksAtHalfOfFullRate(t *testing.T) {
	testenv.Slow(t)
	if testing.Short() {
		t.Skip("50 joins over sockets at 1 % loss: left out with -short")
	}
	if runtime.GOOS != "linux" {
		t.Skip("multicast on the loopback interface needs Linux")
	}
	url := func() string { return fmt.Sprintf("udp://239.20.0.0/16?iface=lo&groups=4&port=%d", testenv.Port(t)) }

	full := newJoinFeed(t, config{Symbols: 20, Messages: 200_000, Subscribers: 1, URL: url()})
	r, wait := full.subscriber(t, 1, pubsub.Live, 1<<60)
	for _, p := range full.pub.joins.publishers { // else it begins with the first packet that is not lost
		if err := p.WaitSubscribers(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if err := full.pub.run(t.Context(), full.src, func(*publisherState) error { return nil }); err != nil {
		t.Fatal(err)
	}
	err := wait()
	rate := float64(full.plan.Total) / time.Since(began).Seconds()
	if s := r.done(time.Now()); err != nil || s.Digest != full.pub.done().Digest || s.Checks == 0 || s.Differ > 0 {
		t.Fatalf("at full rate: %v, %+v", err, s)
	}

	half := newJoinFeed(t, config{Symbols: 20, Messages: 1 << 40, Rate: rate / 2, Subscribers: 1, URL: url()})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- half.pub.run(ctx, half.src, func(*publisherState) error { return nil }) }()
	var checks, before uint64
	began = time.Now()
	for first := 0; first < joinTests; first += joinAtOnce {
		var all sync.WaitGroup
		var mu sync.Mutex
		for i := first; i < first+joinAtOnce; i++ {
			r, wait := half.subscriber(t, i+1, pubsub.State, joinChecks)
			all.Go(func() {
				err := wait()
				mu.Lock()
				defer mu.Unlock()
				checks, before = checks+r.state.Checks, before+r.state.Before
				if s := r.state; err != nil || s.Differ > 0 || s.Disorder > 0 || s.Lost > 0 {
					t.Errorf("subscriber %d: %v: %d of %d books differ, %d out of order, %d lost", i+1, err, s.Differ, s.Checks, s.Disorder, s.Lost)
				}
			})
		}
		all.Wait()
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	published := half.pub.state.Published
	t.Logf("full rate %.0f messages/s; %.0f/s while %d joined, each behind %d messages in the mean; books compared %d times",
		rate, float64(published)/time.Since(began).Seconds(), joinTests, before/joinTests, checks)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/examples/marketdata/book"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

const (
	joinTests  = 50
	joinAtOnce = 10
	joinStay   = 20_000 // messages received by each
)

// joinFeed is a feed that subscribers can join, over sockets, with loss.
type joinFeed struct {
	cfg        config
	plan       *plan
	bus        *pubsub.Bus
	pub        *publisher
	publishers []*pubsub.Publisher
}

// patience is how long a subscriber may get no processor time: eleven buses share the processors with other programs.
const patience = time.Minute

func newJoinFeed(t *testing.T, cfg config) *joinFeed {
	t.Helper()
	p, err := makePlan(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &joinFeed{cfg: cfg, plan: p, publishers: make([]*pubsub.Publisher, len(p.Topics))}
	if f.bus, err = (pubsub.Config{Logger: quiet(), Faults: "loss=0.01,seed=99", Silence: patience}).Open(t.Context(), cfg.URL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.bus.Close() })
	outlets := make([]outlet, len(p.Topics))
	f.pub = newPublisher(p, outlets, cfg.Rate > 0)
	for i, topic := range p.Topics {
		if f.publishers[i], err = f.bus.Publisher(topic); err != nil {
			t.Fatal(err)
		}
		outlets[i] = f.publishers[i]
		if err := f.publishers[i].State(func(w *pubsub.StateWriter) error { return f.pub.writeState(i, w) }); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// run publishes the feed.
func (f *joinFeed) run(ctx context.Context, t *testing.T) error {
	src, err := openSource(f.cfg)
	if err != nil {
		t.Error(err)
		return err
	}
	defer src.close()
	return f.pub.run(ctx, src, func(*publisherState) error { return nil })
}

// compare replays the feed, and compares each book of each receiver with the feed's book at the
// message that the receiver has reached.
func (f *joinFeed) compare(t *testing.T, receivers []*receiver) (compared int) {
	t.Helper()
	type place struct {
		topic  int
		number uint64
	}
	at := map[place][]*receiver{}
	for _, r := range receivers {
		for i, name := range f.plan.Topics {
			t := r.topics[name]
			if t.next > 0 && t.got > 0 { // otherwise r has no book of this state yet
				at[place{i, t.next}] = append(at[place{i, t.next}], r)
			}
		}
	}
	src, err := openSource(f.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer src.close()
	books, number := new(book.Set), make([]uint64, len(f.plan.Topics))
	for len(at) > 0 {
		topic, _, err := src.next(f.plan)
		if err != nil {
			t.Fatal(err)
		}
		books.Apply(&src.msg)
		number[topic]++
		here := place{topic, number[topic]}
		for _, r := range at[here] {
			compared++
			if got := r.books.Book(src.msg.Locate); got == nil || got.Digest() != books.Book(src.msg.Locate).Digest() {
				t.Errorf("the book of %s differs after %d messages", f.plan.Topics[topic], here.number)
			}
		}
		delete(at, here)
	}
	return compared
}

// subscriber is a subscriber of the feed, live or with its state, until it has received enough messages.
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
			if over, err := r.handle(msg, err, time.Now()); over || r.state.Messages >= enough {
				ended <- err
				return
			}
		}
		ended <- t.Context().Err()
	}()
	return r, func() error { return <-ended }
}

// 50 subscribers join over sockets, ten at a time and at 1 % loss, in the middle of a feed at half
// of its full rate: each has the books of the feed when it leaves.
func TestFiftyJoinBooksAtHalfOfFullRate(t *testing.T) {
	testenv.Slow(t)
	if testing.Short() {
		t.Skip("50 joins over sockets at 1 % loss: skipped with -short")
	}
	if runtime.GOOS != "linux" {
		t.Skip("multicast on the loopback interface needs Linux")
	}
	url := func() string { return fmt.Sprintf("udp://239.20.0.0/16?iface=lo&groups=4&port=%d", testenv.Port(t)) }

	full := newJoinFeed(t, config{Symbols: 20, Messages: 200_000, Subscribers: 1, URL: url()})
	r, wait := full.subscriber(t, 1, pubsub.Live, full.plan.Total)
	for _, p := range full.publishers { // otherwise it begins with the first packet that is not lost
		if err := p.WaitSubscribers(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if err := full.run(t.Context(), t); err != nil {
		t.Fatal(err)
	}
	err := wait()
	rate := float64(full.plan.Total) / time.Since(began).Seconds()
	if s := r.done(time.Now()); err != nil || s.Digest != full.pub.done().Digest {
		t.Fatalf("at full rate: error %v, state %+v, want the publisher's digest", err, s)
	}

	half := newJoinFeed(t, config{Symbols: 20, Messages: 1 << 40, Rate: rate / 2, Subscribers: 1, URL: url()})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- half.run(ctx, t) }()
	var receivers []*receiver
	var before uint64
	began = time.Now()
	for first := 0; first < joinTests; first += joinAtOnce {
		var all sync.WaitGroup
		var mu sync.Mutex
		for i := first; i < first+joinAtOnce; i++ {
			r, wait := half.subscriber(t, i+1, pubsub.State, joinStay)
			receivers = append(receivers, r)
			all.Go(func() {
				err := wait()
				mu.Lock()
				defer mu.Unlock()
				before += r.state.Before
				if s := r.state; err != nil || s.Disorder > 0 || s.Lost > 0 {
					t.Errorf("subscriber %d: %v: %d out of order, %d lost, want none", i+1, err, s.Disorder, s.Lost)
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
	t.Logf("full rate %.0f messages/s; %.0f/s while %d joined, each after %d messages on average; %d books compared",
		rate, float64(published)/time.Since(began).Seconds(), joinTests, before/joinTests, half.compare(t, receivers))
}

package pubsub

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// numbered publishes messages first to end-1 of size bytes, and waits until the subscribers that flow control waits
// for have received them.
func numbered(t *testing.T, ctx context.Context, pub *Publisher, first, end, size int) {
	t.Helper()
	msg := make([]byte, size)
	for i := first; i < end; i++ {
		binary.LittleEndian.PutUint64(msg, uint64(i))
		if err := pub.Publish(ctx, msg); err != nil {
			t.Fatalf("publishing message %d: %v", i, err)
		}
	}
	if err := pub.Drain(ctx); err != nil {
		t.Fatal(err)
	}
}

// received checks and counts what a subscription got of a topic of one publisher.
type received struct {
	next, got, lost uint64
	gaps            int
}

// take checks one delivery: messages must be in order, and gaps exact.
func (x *received) take(m Message, err error) error {
	var gap *GapError
	switch {
	case errors.As(err, &gap):
		if gap.First != x.next || gap.Count == 0 || gap.Cause != events.CauseSlowConsumer {
			return fmt.Errorf("at %d: %+v", x.next, gap)
		}
		x.next += gap.Count
		x.lost += gap.Count
		x.gaps++
	case err != nil:
		return err
	case m.Number != x.next || binary.LittleEndian.Uint64(m.Data) != x.next:
		return fmt.Errorf("message %d, %d is next", m.Number, x.next)
	default:
		x.next++
		x.got++
	}
	return nil
}

// takeAll reads until all messages before end were delivered or are in gaps.
func (x *received) takeAll(ctx context.Context, s *Subscription, end uint64) error {
	for x.next < end {
		if err := x.take(s.Next(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// One bus has an unread subscription of each policy that does not block publishers, and one with SlowBlock that is
// read: that one gets everything, and no publisher waits. Then the others are read, and behave as their policies say.
func TestStoppedSubscriptionsOfEachPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		url := memURL(t)
		pubBus := openBus(t, Config{Wait: WaitPark}, url)
		evictions := make(chan events.Event, 10)
		subBus := openBus(t, Config{Wait: WaitPark, ReceiveWindowBytes: 256 << 10, OnEvent: func(e events.Event) {
			if e.Kind == events.SubscriptionEvicted {
				evictions <- e
			}
		}}, url)
		gap := subscribe(t, subBus, "x", SlowConsumer(SlowGap))
		latest := subscribe(t, subBus, "x", SlowConsumer(SlowLatest), MaxBehind(10))
		evict := subscribe(t, subBus, "x", SlowConsumer(SlowEvict), MaxBehind(10))
		var handled atomic.Uint64
		stop := make(chan struct{})
		handler, err := subBus.Handle("x", func(Message, error) {
			handled.Add(1)
			<-stop
		}, SlowConsumer(SlowLatest))
		if err != nil {
			t.Fatal(err)
		}
		newest := subscribe(t, subBus, "x", Conflate(nil))
		block := subscribe(t, subBus, "x", SlowConsumer(SlowBlock))
		pub := publisher(t, pubBus, "x")
		wait(t, ctx, pub, 1)
		const n = 5000
		done := make(chan error, 1)
		go func() {
			var x received
			err := x.takeAll(ctx, block, n)
			if err == nil && x.lost > 0 {
				err = fmt.Errorf("%d messages lost", x.lost)
			}
			done <- err
		}()
		numbered(t, ctx, pub, 0, n, 500)
		if err := <-done; err != nil {
			t.Fatalf("the SlowBlock subscription: %v", err)
		}
		if st := pubBus.Stats().Publications[0]; st.ReceiversSilent+st.ReceiversReleased > 0 {
			t.Errorf("publication %+v, want no subscriber silent or released", st)
		}

		var g, l received
		if err := g.takeAll(ctx, gap, n); err != nil || g.lost == 0 || g.got == 0 {
			t.Errorf("SlowGap: received %+v, error %v, want messages and lost ones", g, err)
		}
		if err := l.takeAll(ctx, latest, n); err != nil || l.gaps != 1 || l.got == 0 {
			t.Errorf("SlowLatest: received %+v, error %v, want messages and 1 gap", l, err)
		}
		if l.got >= g.got {
			t.Errorf("SlowLatest delivers %d messages, SlowGap %d, want fewer", l.got, g.got)
		}
		synctest.Wait()
		m, err := newest.Next(ctx)
		for errors.Is(err, ErrGap) { // the conflating goroutine may be slower than the publisher
			m, err = newest.Next(ctx)
		}
		st := newest.Stats()
		for _, x := range st.Lost {
			st.Replaced += x.Messages
		}
		if err != nil || m.Number != n-1 || st.Messages+st.Replaced != n {
			t.Errorf("Conflate: message %d, error %v, statistics %+v, want message %d, and all read or replaced", m.Number, err, st, n-1)
		}
		_, err = evict.Next(ctx)
		var e *events.EvictedError
		if !errors.As(err, &e) || !errors.Is(err, events.ErrEvicted) || e.Behind <= 10 || e.Allowed != 10 || e.Publisher != pubBus.ID() || e.Group == "" ||
			errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), `pubsub: read "x": the subscription was evicted`) {
			t.Errorf("SlowEvict: error %v, want an EvictedError of topic x, more than 10 packets behind, 10 allowed", err)
		}
		<-evict.Done()
		reported := <-evictions
		var same *events.EvictedError
		if !errors.As(reported.Err, &same) || *same != *e || reported.Behind != e.Behind || reported.For != e.For || !slices.Equal(reported.Topics, []string{"x"}) || len(evictions) != 0 ||
			!strings.Contains(reported.String(), "subscription evicted: x, behind for") {
			t.Errorf("event %v with error %v, want one eviction of topic x with the subscription's error", reported, reported.Err)
		}
		if st := evict.Stats(); !errors.Is(evict.Err(), events.ErrEvicted) || st.Topics != 0 || len(st.Publishers) != 0 {
			t.Errorf("evicted subscription: error %v, statistics %+v, want %v, no topics and no publishers", evict.Err(), st, events.ErrEvicted)
		}
		if err := evict.Close(); err != nil {
			t.Error(err)
		}
		if _, err := evict.Next(ctx); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Next after Close: error %v, want %v", err, net.ErrClosed)
		}
		if handled.Load() != 1 {
			t.Errorf("the handler that does not return was called %d times, want once", handled.Load())
		}
		if _, err := handler.Next(ctx); err == nil {
			t.Error("Next works on a subscription with a handler")
		}
		close(stop)
		if err := handler.Close(); err != nil {
			t.Error(err)
		}
	})
}

// With SlowLatest the newest message is delivered after a skip, even if none follows; one that is longer than a
// packet is delivered complete.
func TestLatestEndsWithTheNewest(t *testing.T) {
	sizes := []int{8, 500, 9000, 100_000}
	if testing.Short() {
		sizes = sizes[:3] // in one packet, and in fragments
	}
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				url := memURL(t)
				pubBus, subBus := openBus(t, Config{Wait: WaitPark}, url), openBus(t, Config{Wait: WaitPark}, url)
				latest := subscribe(t, subBus, "x", SlowConsumer(SlowLatest), MaxBehind(1))
				pub := publisher(t, pubBus, "x")
				wait(t, ctx, pub, 1)
				var x received
				end := 0
				for range 10 {
					numbered(t, ctx, pub, end, end+1000, size)
					synctest.Wait()
					end += 1000
					gaps := x.gaps
					if err := x.takeAll(ctx, latest, uint64(end)); err != nil || x.gaps != gaps+1 {
						t.Fatalf("received %+v, error %v, want %d gaps", x, err, gaps+1)
					}
				}
				if x.got < 10 || x.got > 5000 {
					t.Errorf("received %+v, want 10 to 5000 messages", x)
				}
			})
		})
	}
}

// A handler with a policy has its own goroutine: it may be slow and use the bus. The goroutine ends with the
// subscription, whatever ends that.
func TestOwnGoroutineHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		url := memURL(t)
		pubBus := openBus(t, Config{Wait: WaitPark}, url)
		var reported eventLog
		subBus := openBus(t, Config{Wait: WaitPark, ReceiveWindowBytes: 128 << 10, OnEvent: reported.event}, url)
		var last error
		var mu sync.Mutex
		var x received // under mu
		so := func() received {
			mu.Lock()
			defer mu.Unlock()
			return x
		}
		var sub *Subscription
		ready, first := make(chan struct{}), make(chan map[string]error, 1)
		sub, err := subBus.Handle("x", func(m Message, err error) {
			<-ready
			if errors.Is(err, events.ErrEvicted) {
				last = err
				return
			}
			if last != nil {
				t.Errorf("handler called after the end: message %v, error %v", m, err)
			}
			mu.Lock()
			if err := x.take(m, err); err != nil {
				t.Error(err)
			}
			mu.Unlock()
			if so().next == 1 {
				calls := map[string]error{"Close": sub.Close(), "Close of the bus": subBus.Close()}
				other, err := subBus.Subscribe("y")
				if err != nil {
					t.Error(err)
				}
				calls["Close of another"] = other.Close()
				first <- calls
			}
			time.Sleep(10 * time.Millisecond)
		}, SlowConsumer(SlowEvict))
		if err != nil {
			t.Fatal(err)
		}
		close(ready)
		pub := publisher(t, pubBus, "x")
		wait(t, ctx, pub, 1)
		numbered(t, ctx, pub, 0, 1, 500)
		for call, err := range <-first {
			if !errors.Is(err, ErrInHandler) {
				t.Errorf("%s in a handler: error %v, want %v", call, err, ErrInHandler)
			}
		}
		for i := 1; i < 1000; i += 7 { // as many as it can read, even if each message is a packet
			numbered(t, ctx, pub, i, i+7, 500)
			time.Sleep(80 * time.Millisecond)
		}
		if x := so(); x.got < 900 || x.lost > 0 {
			t.Errorf("received %+v, want at least 900 messages and none lost", x)
		}
		next := int(so().next)
		began := time.Now()
		for ; sub.Err() == nil && next < 100_000; next++ {
			numbered(t, ctx, pub, next, next+1, 500)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("the publisher was blocked for %v, want at most 1 s", d)
		}
		<-sub.Done()
		sub.worker.Wait(ctx)
		if !errors.Is(last, events.ErrEvicted) || !errors.Is(sub.Err(), events.ErrEvicted) {
			t.Errorf("last call has error %v, Err is %v, want %v", last, sub.Err(), events.ErrEvicted)
		}

		// Close waits for the handler, and the bus for all.
		for _, end := range []func(*Subscription) error{(*Subscription).Close, func(*Subscription) error { return subBus.Close() }} {
			running, over := make(chan struct{}, 1), atomic.Bool{}
			sub, err := subBus.Handle("x", func(Message, error) {
				running <- struct{}{}
				time.Sleep(time.Second / 2)
				over.Store(true)
			}, SlowConsumer(SlowGap))
			if err != nil {
				t.Fatal(err)
			}
			wait(t, ctx, pub, 1)
			numbered(t, ctx, pub, next, next+1, 500)
			next++
			<-running
			if err := end(sub); err != nil || !over.Load() {
				t.Errorf("closing: error %v, handler returned: %v, want none and true", err, over.Load())
			}
			if err := sub.worker.Wait(ctx); err != nil {
				t.Error(err)
			}
		}
		if all := reported.of(events.HandlerSlow); len(all) > 0 {
			t.Errorf("events %v, want no slow handler", all)
		}
	})
}

// A handler with its own goroutine, and a key function of Conflate, that take seconds are reported while they run and
// when they have returned; the bus continues meanwhile.
func TestSlowOwnGoroutineHandler(t *testing.T) {
	for name, subscribe := range map[string]func(*Bus, func()) (*Subscription, error){
		"handler": func(b *Bus, take func()) (*Subscription, error) {
			return b.Handle("x", func(Message, error) { take() }, Topics("y"), SlowConsumer(SlowGap))
		},
		"key": func(b *Bus, take func()) (*Subscription, error) {
			return b.Subscribe("x", Topics("y"), Conflate(func(Message) []byte { take(); return nil }))
		},
		"handler of conflated messages": func(b *Bus, take func()) (*Subscription, error) {
			return b.Handle("x", func(Message, error) { take() }, Topics("y"), Conflate(nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := testContext(t)
				url := memURL(t)
				var reported eventLog
				subBus, pubBus := openBus(t, Config{Wait: WaitPark, OnEvent: reported.event}, url), openBus(t, Config{Wait: WaitPark}, url)
				var running atomic.Int64
				sub, err := subscribe(subBus, func() {
					if running.Add(1) == 1 {
						time.Sleep(3500 * time.Millisecond)
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				pub := publisher(t, pubBus, "x")
				wait(t, ctx, pub, 1)
				numbered(t, ctx, pub, 0, 2, 100)
				time.Sleep(2500 * time.Millisecond)
				synctest.Wait()
				slow := reported.of(events.HandlerSlow)
				if len(slow) != 2 || slow[0].For != time.Second || slow[1].For != 2*time.Second || !slices.Equal(slow[1].Topics, []string{"x", "y"}) {
					t.Errorf("events while the handler runs: %v, want two, of 1 and 2 s, of topics x and y", slow)
				}
				if _, err := subBus.Subscribe("z"); err != nil {
					t.Errorf("Subscribe meanwhile: %v", err)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if all := reported.of(events.HandlerReturned); len(all) != 1 || all[0].For < 3*time.Second {
					t.Errorf("events after the handler has returned: %v, want one of at least 3 s", all)
				}
				if err := sub.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Invalid combinations of options are refused.
func TestSlowOptions(t *testing.T) {
	bus := openBus(t, Config{}, memURL(t))
	for _, c := range []struct {
		options []SubscribeOption
		want    string
	}{
		{[]SubscribeOption{SlowConsumer(9)}, "SlowConsumer(9) is not one of"},
		{[]SubscribeOption{SlowConsumer(-1)}, "SlowConsumer(-1) is not one of"},
		{[]SubscribeOption{SlowConsumer(SlowLatest), MaxBehind(0)}, "MaxBehind(0) must be a number of packets above zero"},
		{[]SubscribeOption{SlowConsumer(SlowEvict), MaxBehind(-3)}, "MaxBehind(-3)"},
		{[]SubscribeOption{MaxBehind(3)}, "MaxBehind is for SlowLatest and SlowEvict"},
		{[]SubscribeOption{SlowConsumer(SlowGap), MaxBehind(3)}, "MaxBehind is for"},
	} {
		if _, err := bus.Subscribe("x", c.options...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Subscribe: %v, want %q", err, c.want)
		}
		if _, err := bus.Handle("x", func(Message, error) {}, c.options...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Handle: %v, want %q", err, c.want)
		}
	}
	for _, p := range []SlowPolicy{SlowAuto, SlowBlock, SlowGap, SlowLatest, SlowEvict} {
		for range 2 {
			if _, err := bus.Handle("x", func(Message, error) {}, SlowConsumer(p)); err != nil {
				t.Error(err)
			}
		}
	}
}

package pubsub

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// byNumber is the key function for messages of publishKeyed, which begin with a key of 4 bytes.
func byNumber(m Message) []byte { return m.Data[:4] }

// publishKeyed publishes message number i, of key k and size bytes.
func publishKeyed(t *testing.T, ctx context.Context, pub *Publisher, k uint32, i uint64, size int) {
	t.Helper()
	msg := make([]byte, max(size, 12))
	binary.LittleEndian.PutUint32(msg, k)
	binary.LittleEndian.PutUint64(msg[4:], i)
	if err := pub.Publish(ctx, msg); err != nil {
		t.Fatalf("publishing message %d: %v", i, err)
	}
}

// With 10,000 keys at 100,000 messages a second, and a reader of 1,000 a second, the publisher is not blocked, memory
// stays constant, and each key ends with its last value.
func TestConflateManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		const burst = 100
		keys, messages := fewer(10_000), uint64(fewer(300_000))
		url := memURL(t)
		pubBus, subBus := openBus(t, Config{Wait: WaitPark}, url), openBus(t, Config{Wait: WaitPark}, url)
		sub := subscribe(t, subBus, "x", Conflate(byNumber))
		pub := publisher(t, pubBus, "x")
		wait(t, ctx, pub, 1)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		last, seen := make([]uint64, keys), make([]uint64, keys)
		all, done := make(chan struct{}), make(chan error, 1)
		took, lost := uint64(0), uint64(0)
		go func() {
			for {
				m, err := sub.Next(ctx)
				var gap *GapError
				switch {
				case errors.As(err, &gap):
					lost += gap.Count
				case errors.Is(err, net.ErrClosed):
					done <- nil
					return
				case err != nil:
					done <- err
					return
				default:
					k, i := binary.LittleEndian.Uint32(m.Data), binary.LittleEndian.Uint64(m.Data[4:])
					if i <= seen[k] && seen[k] > 0 || m.Number != i {
						done <- fmt.Errorf("key %d: message %d (number %d) after %d", k, i, m.Number, seen[k])
						return
					}
					seen[k] = i
					took++
				}
				select {
				case <-all: // then without pauses
				default:
					time.Sleep(time.Millisecond)
				}
			}
		}()
		began := time.Now()
		memory := 0
		for i := range messages {
			k := uint32(rng.IntN(keys))
			publishKeyed(t, ctx, pub, k, i, 40)
			last[k] = i
			if i%burst == burst-1 {
				time.Sleep(time.Millisecond)
			}
			switch i {
			case messages / 2:
				memory = sub.Stats().WaitingBytes
			case messages - 1:
				if n := sub.Stats().WaitingBytes; n > memory+memory/50 {
					t.Errorf("%d bytes at the end, %d half way, want at most 2 %% more", n, memory)
				}
			}
		}
		if d := time.Since(began); d > time.Duration(messages/burst)*time.Millisecond*11/10 {
			t.Errorf("the publisher took %v, want at most 1.1 ms for each %d messages", d, burst)
		}
		if err := pub.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		st := sub.Stats()
		if st.Waiting == 0 || st.Waiting > keys || st.Replaced == 0 || subBus.Stats().ReplacedMessages != st.Replaced {
			t.Errorf("statistics %+v, want replaced messages, as many as the bus counts, and 1 to %d waiting", st, keys)
		}
		close(all)
		for sub.Stats().Waiting > 0 {
			time.Sleep(time.Millisecond)
		}
		st = sub.Stats()
		sub.Close()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if lost > 0 || took+st.Replaced != messages || st.Messages != took {
			t.Errorf("%d messages read, %d lost, statistics %+v, want %d read or replaced", took, lost, st, messages)
		}
		if !slices.Equal(seen, last) {
			t.Error("not every key ends with its last value")
		}
	})
}

// Keys are delivered in the order in which they began to wait; a waiting message is replaced in its position; each
// topic has separate keys; messages of removed topics are dropped; and the end of the publisher is delivered last.
func TestConflateOrder(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		topics := sameGroup(pubBus, 3)
		a, b, gone := topics[0], topics[1], topics[2]
		sub := subscribe(t, subBus, a, Topics(b, gone), PublisherEvents(), Conflate(func(m Message) []byte { return m.Data[:1] }))
		pubs := make(map[string]*Publisher)
		for _, x := range topics {
			pubs[x] = publisher(t, pubBus, x)
			wait(t, ctx, pubs[x], 1)
		}
		for _, m := range [][2]string{{a, "x1"}, {a, "y1"}, {b, "x1"}, {gone, "x1"}, {a, "x2"}, {b, "z1"}, {a, "y2"}, {a, "x3"}} {
			publish(t, ctx, pubs[m[0]], m[1])
		}
		waiting := func(n int) {
			t.Helper()
			for sub.Stats().Waiting != n {
				if ctx.Err() != nil {
					t.Fatalf("statistics %+v, want %d waiting", sub.Stats(), n)
				}
				time.Sleep(time.Millisecond)
			}
		}
		for st := sub.Stats(); st.Replaced < 3; st = sub.Stats() {
			if ctx.Err() != nil {
				t.Fatalf("statistics %+v, want 3 messages replaced", st)
			}
			time.Sleep(time.Millisecond)
		}
		waiting(6) // PublisherUp is one of them
		if err := sub.Remove(gone); err != nil {
			t.Fatal(err)
		}
		waiting(5)
		if err := pubBus.Close(); err != nil {
			t.Fatal(err)
		}
		waiting(6)
		var got []string
		batch := make([]Message, 3)
		for len(got) < 6 {
			n, err := sub.NextBatch(ctx, batch)
			var e *PublisherEvent
			switch {
			case errors.As(err, &e):
				got = append(got, e.Kind.String())
			case err != nil:
				t.Fatal(err)
			}
			for _, m := range batch[:n] {
				got = append(got, m.Topic+" "+string(m.Data))
			}
		}
		want := []string{"publisher up", a + " x3", a + " y2", b + " x1", b + " z1", "publisher ended"}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if st := sub.Stats(); st.Messages != 4 || st.Replaced != 3 || st.Waiting != 0 {
			t.Errorf("statistics %+v, want 4 messages, 3 replaced, none waiting", st)
		}
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if _, err := sub.Next(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Next after all messages: error %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// When the limit of waiting keys is reached, the subscription stops reading: messages that the window cannot hold are
// an exact gap, and publishers are not blocked. With SlowBlock they are, and nothing is lost.
func TestConflateLimits(t *testing.T) {
	for _, c := range []struct {
		name    string
		options []SubscribeOption
		blocks  bool
	}{
		{"keys", []SubscribeOption{ConflateLimits(100, 1<<30)}, false},
		{"bytes", []SubscribeOption{ConflateLimits(1<<20, 100*1000)}, false},
		{"keys, block", []SubscribeOption{ConflateLimits(100, 1<<30), SlowConsumer(SlowBlock)}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				url := memURL(t)
				pubBus := openBus(t, Config{Wait: WaitPark, WindowBytes: 256 << 10}, url)
				subBus := openBus(t, Config{Wait: WaitPark, ReceiveWindowBytes: 256 << 10}, url)
				sub := subscribe(t, subBus, "x", append(c.options, Conflate(byNumber))...)
				pub := publisher(t, pubBus, "x")
				wait(t, ctx, pub, 1)
				const n = 3000
				held := false
				for i := range uint64(n) { // each message has another key
					late, cancel := context.WithTimeout(ctx, time.Second)
					msg := make([]byte, 900)
					binary.LittleEndian.PutUint32(msg, uint32(i))
					err := pub.Publish(late, msg)
					cancel()
					if errors.Is(err, events.ErrBackPressure) {
						held = true
						break
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				if held != c.blocks {
					t.Fatalf("the publisher is blocked: %v, want %v", held, c.blocks)
				}
				if held {
					sub.Close()
					return
				}
				if err := pub.Flush(ctx); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if st := sub.Stats(); st.Waiting > 111 || st.WaitingBytes > 110*1024 {
					t.Errorf("statistics %+v, want at most 111 messages and %d bytes waiting", st, 110*1024)
				}
				next, lost := uint64(0), uint64(0)
				for next < n {
					m, err := sub.Next(ctx)
					var gap *GapError
					switch {
					case errors.As(err, &gap):
						if gap.First != next || gap.Count == 0 || gap.Cause != events.CauseSlowConsumer {
							t.Fatalf("gap %+v, want one of cause %v that begins at %d", gap, events.CauseSlowConsumer, next)
						}
						next += gap.Count
						lost += gap.Count
					case err != nil:
						t.Fatal(err)
					case m.Number != next:
						t.Fatalf("message %d, want %d", m.Number, next)
					default:
						next++
					}
				}
				if lost == 0 {
					t.Error("nothing was lost")
				}
			})
		})
	}
}

// A handler receives the newest message of each key in its own goroutine. Invalid options are refused, and the key
// function cannot close its subscription.
func TestConflateHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		url := memURL(t)
		pubBus, subBus := openBus(t, Config{Wait: WaitPark}, url), openBus(t, Config{Wait: WaitPark}, url)
		var sub *Subscription
		var inKey error
		ready := make(chan struct{})
		got := make(chan string, 10)
		sub, err := subBus.Handle("x", func(m Message, err error) {
			got <- fmt.Sprintf("%s %v", m.Data, err)
			time.Sleep(time.Second)
		}, Conflate(func(m Message) []byte {
			<-ready
			inKey = sub.Close()
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		close(ready)
		pub := publisher(t, pubBus, "x")
		wait(t, ctx, pub, 1)
		for i := range 10 {
			publish(t, ctx, pub, fmt.Sprint(i))
			time.Sleep(10 * time.Millisecond)
		}
		if a, b := <-got, <-got; a != "0 <nil>" || b != "9 <nil>" {
			t.Errorf("handled %q and %q, want messages 0 and 9 without errors", a, b)
		}
		if !errors.Is(inKey, ErrInHandler) {
			t.Errorf("Close in the key function: %v, want %v", inKey, ErrInHandler)
		}
		if _, err := sub.Next(ctx); err == nil {
			t.Error("Next works on a subscription with a handler")
		}
		if err := sub.Close(); err != nil {
			t.Error(err)
		}
		for what, options := range map[string][]SubscribeOption{
			"combined with SlowGap and SlowBlock": {Conflate(nil), SlowConsumer(SlowLatest)},
			"ConflateLimits is for Conflate":      {ConflateLimits(1, 1)},
			"ConflateLimits(0, 1) must both be":   {Conflate(nil), ConflateLimits(0, 1)},
			"ConflateLimits(1, -1) must both be":  {Conflate(nil), ConflateLimits(1, -1)},
		} {
			if _, err := subBus.Subscribe("x", options...); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("Subscribe: error %v, want one containing %q", err, what)
			}
		}
		// Without a key function each topic is one key.
		sub = subscribe(t, subBus, "x", Conflate(nil))
		wait(t, ctx, pub, 1)
		for i := range 5 {
			publish(t, ctx, pub, fmt.Sprint(i))
		}
		if err := pub.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want(t, ctx, sub, "4")
		if err := subBus.Close(); err != nil {
			t.Error(err)
		}
		if _, err := sub.Next(ctx); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Next on a closed bus: %v, want %v", err, net.ErrClosed)
		}
	})
}

// Messages of known keys allocate nothing, with Next and NextBatch.
func TestConflateAllocatesNothing(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{WindowBytes: 1 << 20}, url), openBus(t, Config{}, url)
	sub := subscribe(t, subBus, "x", SlowConsumer(SlowBlock), Conflate(byNumber))
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	msg := make([]byte, 64)
	batch := make([]Message, 16)
	one := func() {
		for k := range 100 {
			binary.LittleEndian.PutUint32(msg, uint32(k))
			if err := pub.Publish(ctx, msg); err != nil {
				t.Fatal(err)
			}
		}
		for n := 0; n < 100; {
			got, err := sub.NextBatch(ctx, batch)
			if err != nil {
				t.Fatal(err)
			}
			n += got
		}
	}
	for range 300 {
		one()
	}
	if n := testing.AllocsPerRun(100, one); n >= 1 {
		t.Errorf("%v allocations per 100 messages, want 0", n)
	}
}

package pubsub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// event waits for a publisher event of that kind in the stream.
func event(t *testing.T, ctx context.Context, s *Subscription, kind events.Kind) *PublisherEvent {
	t.Helper()
	_, err := s.Next(ctx)
	var e *PublisherEvent
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("want event %v, got %v", kind, err)
	}
	return e
}

func TestPublisherEvents(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		subBus := openBus(t, Config{}, url)
		sub := subscribe(t, subBus, "x", PublisherEvents())
		pubBus := openBus(t, Config{}, url)
		pub := publisher(t, pubBus, "x")
		wait(t, ctx, pub, 1)
		publish(t, ctx, pub, "one")
		if e := event(t, ctx, sub, events.PublisherUp); e.Publisher != pubBus.ID() {
			t.Errorf("event PublisherUp of %v, want %v", e.Publisher, pubBus.ID())
		}
		if m := want(t, ctx, sub, "one"); m.Publisher() != pubBus.ID() {
			t.Errorf("message of %v, want %v", m.Publisher(), pubBus.ID())
		}
		publish(t, ctx, pub, "two")
		if err := pubBus.Close(); err != nil {
			t.Error(err)
		}
		want(t, ctx, sub, "two")
		event(t, ctx, sub, events.PublisherEnded)
	})
}

// memTransport is a transport that the test can close to kill its bus.
func memTransport(t *testing.T, name string) transport.Transport {
	t.Helper()
	tr, err := mem.Open(mem.Config{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// A named publisher is killed and restarted: subscribers see the same publisher id with another epoch, and
// PublisherRestarted for the first.
func TestPublisherRestart(t *testing.T) {
	synctest.Test(t, testPublisherRestart) // on a busy host the first would be missed before the second is there
}

func testPublisherRestart(t *testing.T) {
	ctx := testContext(t)
	name := t.Name()
	subBus := openBus(t, Config{Wait: WaitPark}, "mem://"+name)
	sub := subscribe(t, subBus, "x", PublisherEvents())
	tr := memTransport(t, name)
	first, err := Config{Name: "feed", Logger: quiet, Wait: WaitPark}.OpenTransport(tr)
	if err != nil {
		t.Fatal(err)
	}
	pub := publisher(t, first, "x")
	wait(t, ctx, pub, 1)
	publish(t, ctx, pub, "before")
	event(t, ctx, sub, events.PublisherUp)
	epoch := want(t, ctx, sub, "before").Epoch()
	tr.Close()       // like a crash: nothing announces the end
	for err == nil { // until the bus has noticed
		err = pub.Publish(ctx, []byte("lost"))
	}
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("Publish on a dead transport: %v, want %v", err, net.ErrClosed)
	}
	second := openBus(t, Config{Name: "feed", Wait: WaitPark}, "mem://"+name)
	pub = publisher(t, second, "x")
	wait(t, ctx, pub, 1)
	publish(t, ctx, pub, "after")
	event(t, ctx, sub, events.PublisherUp)
	if m := want(t, ctx, sub, "after"); m.Epoch() == epoch || m.Number != 0 || m.Publisher() != first.ID() {
		t.Fatalf("message after the restart: %+v, want number 0 of a new epoch", m)
	}
	if e := event(t, ctx, sub, events.PublisherRestarted); e.Epoch != epoch {
		t.Errorf("restarted: epoch %d, want the first one's, %d", e.Epoch, epoch)
	}
}

// A publisher that dies is reported lost.
func TestPublisherLost(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx := testContext(t)
	name := t.Name()
	subBus := openBus(t, Config{}, "mem://"+name)
	sub := subscribe(t, subBus, "x", PublisherEvents())
	dying := killable(t, ctx, name, sub)
	dying.Close()
	event(t, ctx, sub, events.PublisherLost)
}

// killable starts a publisher on topic x of mem://name, from which sub has received a message, and returns its
// transport: closing it kills the publisher.
func killable(t *testing.T, ctx context.Context, name string, sub *Subscription) transport.Transport {
	t.Helper()
	tr := memTransport(t, name)
	dying, err := Config{Logger: quiet}.OpenTransport(tr)
	if err != nil {
		t.Fatal(err)
	}
	pub := publisher(t, dying, "x")
	wait(t, ctx, pub, 1)
	publish(t, ctx, pub, "last")
	event(t, ctx, sub, events.PublisherUp)
	want(t, ctx, sub, "last")
	return tr
}

// A killed subscriber blocks the publisher only until it is found silent.
func TestSubscriberKilled(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx := testContext(t)
	name := t.Name()
	silent := make(chan events.Event, 1)
	pubBus := openBus(t, Config{OnEvent: func(e events.Event) {
		if e.Kind == events.SubscriberSilent {
			silent <- e
		}
	}}, "mem://"+name)
	living := openBus(t, Config{}, "mem://"+name)
	sub := subscribe(t, living, "x")
	tr := memTransport(t, name)
	dying, err := Config{Logger: quiet}.OpenTransport(tr)
	if err != nil {
		t.Fatal(err)
	}
	subscribe(t, dying, "x")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 2)
	tr.Close()
	const n = 100000 // more than the dead subscriber's window
	go func() {
		for i := range n {
			if err := pub.Publish(ctx, fmt.Appendf(nil, "%0200d", i)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for i := range n {
		want(t, ctx, sub, fmt.Sprintf("%0200d", i))
	}
	select {
	case <-silent:
	case <-ctx.Done():
		t.Fatal("the dead subscriber was never found silent")
	}
	if got := pub.Subscribers(); got != 1 {
		t.Errorf("%d subscribers, want 1", got)
	}
}

// 32 publishers share a group: messages of each arrive in order, and the memory of the receive windows stays within
// its bound.
func TestManyPublishersOneGroup(t *testing.T) {
	testenv.Slow(t)
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		const publishers = 32
		n := fewer(500)
		const memory = 16 << 20
		// On a busy host repairs may be late, which this test does not check.
		subBus := openBus(t, Config{ReceiveMemoryBytes: memory, RecoveryDeadline: time.Minute}, url)
		sub := subscribe(t, subBus, "x")
		var wg sync.WaitGroup
		for range publishers {
			b := openBus(t, Config{WindowBytes: 1 << 20, Wait: WaitPark}, url) // that many spinning goroutines would take each other's processor
			pub := publisher(t, b, "x")
			wg.Go(func() {
				if err := pub.WaitSubscribers(ctx, 1); err != nil {
					t.Error(err)
					return
				}
				for i := range n {
					if err := pub.Publish(ctx, fmt.Appendf(nil, "%d %v", i, b.ID())); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		next := map[PublisherID]int{}
		for range publishers * n {
			m, err := sub.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("%d %v", next[m.Publisher()], m.Publisher()); string(m.Data) != want {
				t.Fatalf("got %q, want %q", m.Data, want)
			}
			if next[m.Publisher()]++; next[m.Publisher()] == n/2 {
				if g := subBus.Stats().Groups[0]; g.Windows > memory || g.Windows == 0 {
					t.Errorf("windows of %d streams take %d bytes, the bound is %d", g.Streams, g.Windows, memory)
				}
			}
		}
		wg.Wait()
		if len(next) != publishers {
			t.Errorf("messages of %d publishers arrived, want %d", len(next), publishers)
		}
	})
}

// Topics of one group keep the publisher's order; messages of topics that are not subscribed are not delivered.
// docs/protocol §3.10, §10.4.
func TestTopicsOfOneGroup(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		topics := sameGroup(pubBus, 3)
		sub := subscribe(t, subBus, topics[0], Topics(topics[1]))
		pubs := make([]*Publisher, 3)
		for i := range pubs {
			pubs[i] = publisher(t, pubBus, topics[i])
		}
		wait(t, ctx, pubs[0], 1)
		wait(t, ctx, pubs[1], 1)
		if n := pubs[2].Subscribers(); n != 0 {
			t.Errorf("topic without subscription has %d subscribers, want none", n)
		}
		for i := range 300 {
			publish(t, ctx, pubs[i%3], fmt.Sprint(i))
		}
		for i := range 300 {
			if i%3 == 2 {
				continue // not subscribed
			}
			m := want(t, ctx, sub, fmt.Sprint(i))
			if m.Topic != topics[i%3] || m.Number != uint64(i/3) {
				t.Fatalf("message %d was delivered on %s with number %d, want topic %s and number %d", i, m.Topic, m.Number, topics[i%3], i/3)
			}
		}
	})
}

func largeMessages(t *testing.T, url string) {
	ctx := testContext(t)
	pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
	sub := subscribe(t, subBus, "x")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	sizes := []int{0, 1, 1402, 1403, 1404, 3000, 1 << 20, 16 << 20}
	go func() {
		for i, n := range sizes {
			if err := pub.Publish(ctx, bytes.Repeat([]byte{byte('a' + i)}, n)); err != nil {
				t.Error(err)
			}
		}
	}()
	for i, n := range sizes {
		m, err := sub.Next(ctx)
		if err != nil {
			t.Fatalf("message of %d bytes: %v", n, err)
		}
		if len(m.Data) != n || bytes.Count(m.Data, []byte{byte('a' + i)}) != n {
			t.Fatalf("message of %d bytes arrived with %d, want the same bytes", n, len(m.Data))
		}
	}
	if err := pub.Publish(ctx, make([]byte, 16<<20+1)); !errors.Is(err, ErrMessageTooLarge) {
		t.Errorf("a message of 16 MiB and a byte: error %v, want %v", err, ErrMessageTooLarge)
	}
	publish(t, ctx, pub, "still there")
	want(t, ctx, sub, "still there")
}

// A subscriber with a lower Config.MaxMessage gets gaps for larger messages. docs/protocol §12.3.
func maxMessage(t *testing.T, url string) {
	ctx := testContext(t)
	pubBus := openBus(t, Config{}, url)
	pub := publisher(t, pubBus, "x")
	for i, limit := range []int{5000, 1000} { // of several packets, and of one
		subBus := openBus(t, Config{MaxMessage: limit}, url)
		sub := subscribe(t, subBus, "x")
		wait(t, ctx, pub, 1)
		publish(t, ctx, pub, "before")
		publish(t, ctx, pub, strings.Repeat("x", limit+1))
		publish(t, ctx, pub, "after")
		want(t, ctx, sub, "before")
		_, err := sub.Next(ctx)
		var gap *GapError
		if !errors.As(err, &gap) || gap.First != uint64(3*i+1) || gap.Count != 1 || gap.Cause != events.CauseTooLarge {
			t.Fatalf("got %v, want a gap of message %d", err, 3*i+1)
		}
		want(t, ctx, sub, "after")
		subBus.Close()
		for pub.Subscribers() > 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

func TestBatchFlushDrain(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
	sub := subscribe(t, subBus, "x")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	var msgs [][]byte
	for i := range 1000 {
		msgs = append(msgs, fmt.Append(nil, i))
	}
	if n, err := pub.PublishBatch(ctx, msgs); n != 1000 || err != nil {
		t.Fatalf("PublishBatch: %d messages sent, error %v, want 1000 and none", n, err)
	}
	if err := pub.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if st := pubBus.Stats().Publications[0]; st.MessagesSent != 1000 || st.PacketsSent != st.Lead {
		t.Errorf("after Flush: %d messages in %d of %d packets sent", st.MessagesSent, st.PacketsSent, st.Lead)
	}
	if err := pub.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		want(t, ctx, sub, fmt.Sprint(i))
	}
}

// docs/protocol §3.9.
func TestBadTopics(t *testing.T) {
	b := openBus(t, Config{}, memURL(t))
	for _, topic := range []string{"", ".", "a.", ".a", "a..b", "a b", "a\x00b", "a\nb", "a*", "a>b", "a\u00a0b", "a\u200bb", "a\u2028b", "a\ufeffb", "\xff", strings.Repeat("x", 256)} {
		if _, err := b.Publisher(topic); !errors.Is(err, ErrTopic) {
			t.Errorf("Publisher(%q): error %v, want %v", topic, err, ErrTopic)
		}
		if _, err := b.Subscribe(topic); !errors.Is(err, ErrTopic) {
			t.Errorf("Subscribe(%q): error %v, want %v", topic, err, ErrTopic)
		}
	}
	for _, topic := range []string{"*", ">", "a.*", "a.>", "*.b"} {
		if _, err := b.Publisher(topic); !errors.Is(err, ErrWildcard) || !errors.Is(err, ErrTopic) {
			t.Errorf("Publisher(%q): %v, want ErrWildcard", topic, err)
		}
	}
	if _, err := b.Publisher(strings.Repeat("x", 255)); err != nil {
		t.Errorf("topic of 255 bytes: %v", err)
	}
}

func TestBadURLs(t *testing.T) {
	for _, u := range []string{"", "nats://x", "udp://10.0.0.1", "udp://239.20.0.0/16?nonsense=1", "udp://239.20.0.0/16?iface=lo&port=x", ":", "mem://a/b", "mem://a?size=100"} {
		b, err := Open(t.Context(), u)
		if !errors.Is(err, ErrURL) {
			t.Errorf("Open(%q): %v, want ErrURL", u, err)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("Open(%q): error %v, want one line", u, err)
		}
		if b != nil {
			b.Close()
		}
	}
	if _, err := url.Parse("udp://239.20.0.0/16?iface=lo"); err != nil {
		t.Fatal(err)
	}
}

// After Close no goroutine is left.
func TestNoGoroutineLeft(t *testing.T) {
	eachFabricInTurn(t, func(t *testing.T, url string) {
		before := runtime.NumGoroutine()
		ctx := testContext(t)
		for range 3 {
			a, b := openBus(t, Config{}, url), openBus(t, Config{Faults: "loss=0.1,seed=3"}, url)
			sub := subscribe(t, b, "x")
			pub := publisher(t, a, "x")
			wait(t, ctx, pub, 1)
			for i := range 100 {
				publish(t, ctx, pub, fmt.Sprint(i))
			}
			for i := range 100 {
				want(t, ctx, sub, fmt.Sprint(i))
			}
			a.Close()
			b.Close()
			b.Close()
		}
		testenv.AwaitGoroutines(t, before)
	})
}

// Closing a bus under load does not disturb other buses.
func TestCloseUnderLoad(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		a, b := openBus(t, Config{}, url), openBus(t, Config{}, url)
		var wg sync.WaitGroup
		for k := range 4 {
			topic := fmt.Sprint("t", k)
			sub := subscribe(t, b, topic)
			wg.Go(func() {
				for m, err := range sub.Messages(ctx) {
					if err == nil && len(m.Data) == 0 {
						t.Error("empty message")
					}
				}
			})
			pub := publisher(t, a, topic)
			wait(t, ctx, pub, 1)
			wg.Go(func() {
				for {
					if err := pub.Publish(ctx, []byte("payload")); err != nil {
						if !errors.Is(err, net.ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		b.Close()
		a.Close()
		wg.Wait()
	})
}

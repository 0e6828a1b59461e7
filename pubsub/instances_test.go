package pubsub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/fabricurl"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
)

// Several buses of one Config.Name: docs/protocol §3.

// instanceFabrics runs a test of instances over several fabrics.
func instanceFabrics(t *testing.T, f func(t *testing.T, url string)) {
	for _, fabric := range []testFabric{{"mem", memURL}, {"udp", udpURL}} {
		t.Run(fabric.name, func(t *testing.T) { f(t, fabric.url(t)) })
	}
}

// instance is one bus of the name "feed", that publishes on topic "x".
type instance struct {
	t    *testing.T
	ctx  context.Context
	tr   transport.Transport
	b    *Bus
	p    *Publisher
	sent int
}

func startInstance(t *testing.T, ctx context.Context, url string, epoch events.ID) *instance {
	t.Helper()
	u, err := fabricurl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := u.Open(quiet)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Config{Name: "feed", Logger: quiet, epoch: epoch}.OpenTransport(tr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	i := &instance{t: t, ctx: ctx, tr: tr, b: b, p: publisher(t, b, "x")}
	wait(t, ctx, i.p, 1)
	return i
}

func (i *instance) epoch() events.ID { return i.b.loop.Instance().Epoch }

func (i *instance) publish(n int) {
	i.t.Helper()
	for range n {
		publish(i.t, i.ctx, i.p, fmt.Sprintf("%d %d", i.epoch(), i.sent))
		i.sent++
	}
}

// kill ends the bus as a crash would: it sends nothing more.
func (i *instance) kill() { i.tr.Close() }

// instanceReader reads a subscription and checks that the messages of each instance, by epoch, are complete and in
// order.
type instanceReader struct {
	t      *testing.T
	ctx    context.Context
	sub    *Subscription
	next   map[events.ID]int
	events []string
}

func listen(t *testing.T, ctx context.Context, url string) *instanceReader {
	b := openBus(t, Config{}, url)
	return &instanceReader{t: t, ctx: ctx, sub: subscribe(t, b, "x", PublisherEvents()), next: make(map[events.ID]int)}
}

// read reads one message or event.
func (h *instanceReader) read() {
	h.t.Helper()
	m, err := h.sub.Next(h.ctx)
	var e *PublisherEvent
	if errors.As(err, &e) {
		h.events = append(h.events, fmt.Sprintf("%d %v", e.Epoch, e.Kind))
		return
	}
	if err != nil {
		h.t.Fatalf("%v; delivered so far: %v, %v", err, h.next, h.events)
	}
	i := h.next[m.Epoch()]
	if want := fmt.Sprint(uint64(m.Epoch()), " ", i); string(m.Data) != want || m.Number != uint64(i) {
		h.t.Fatalf("got message %d, %q, want %q", m.Number, m.Data, want)
	}
	if m.PublisherName() != "feed" {
		h.t.Fatalf("message %q is of publisher %q, want feed", m.Data, m.PublisherName())
	}
	h.next[m.Epoch()]++
}

// all reads until everything that the instances have published is delivered.
func (h *instanceReader) all(instances ...*instance) {
	h.t.Helper()
	for _, i := range instances {
		for h.next[i.epoch()] < i.sent {
			h.read()
		}
	}
}

// event reads until the event is delivered.
func (h *instanceReader) event(i *instance, kind events.Kind) {
	h.t.Helper()
	for want := fmt.Sprintf("%d %v", i.epoch(), kind); !slices.Contains(h.events, want); {
		h.read()
	}
}

// Two buses with one name publish at the same time: all messages of both are delivered, whichever epoch is greater.
func TestTwoInstancesSideBySide(t *testing.T) {
	instanceFabrics(t, func(t *testing.T, url string) {
		for _, epochs := range [][]events.ID{{1000, 2000}, {4000, 3000}} {
			ctx := testContext(t)
			h := listen(t, ctx, url)
			handled := make(chan string, 1000)
			if _, err := h.sub.bus.Handle("x", func(m Message, err error) {
				if err == nil {
					handled <- string(m.Data)
				}
			}); err != nil {
				t.Fatal(err)
			}
			a, b := startInstance(t, ctx, url, epochs[0]), startInstance(t, ctx, url, epochs[1])
			for range 200 {
				a.publish(1)
				b.publish(1)
			}
			h.all(a, b)
			for range 400 {
				select {
				case <-handled:
				case <-ctx.Done():
					t.Fatal("the handler did not get all messages")
				}
			}
			if a.b.ID() != b.b.ID() {
				t.Error("the publisher id does not depend on the name alone")
			}
			a.b.Close()
			b.publish(1)
			h.all(b)
			b.b.Close()
			h.event(a, events.PublisherEnded)
			h.event(b, events.PublisherEnded)
		}
	})
}

// Open makes the epochs: two buses with one name never have the same.
func TestInstancesDiffer(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	h := listen(t, ctx, url)
	var all []*instance
	for range 3 {
		i := startInstance(t, ctx, url, 0)
		i.publish(10)
		all = append(all, i)
	}
	h.all(all...)
	if len(h.next) != 3 {
		t.Errorf("3 instances have epochs %v, want 3", h.next)
	}
}

// A rolling update overlaps and is rolled back: the new instance is closed, the old one continues, and no message of
// either is missing.
func TestRollingUpdateRolledBack(t *testing.T) {
	instanceFabrics(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		h := listen(t, ctx, url)
		a := startInstance(t, ctx, url, 1000)
		a.publish(100)
		b := startInstance(t, ctx, url, 2000)
		for range 100 {
			a.publish(1)
			b.publish(1)
		}
		b.b.Close()
		a.publish(100)
		h.all(a, b)
		h.event(b, events.PublisherEnded)
		for _, e := range h.events {
			if !strings.HasSuffix(e, "up") && e != fmt.Sprint(2000, " ", events.PublisherEnded) {
				t.Errorf("unexpected event: %s", e)
			}
		}
	})
}

// A bus is killed and restarted: all messages of both instances arrive, and PublisherRestarted is delivered for the
// first, also if the second has a lower epoch.
func TestKilledAndRestarted(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	instanceFabrics(t, func(t *testing.T, url string) {
		for _, epochs := range [][]events.ID{{1000, 2000}, {4000, 3000}} {
			ctx := testContext(t)
			h := listen(t, ctx, url)
			a := startInstance(t, ctx, url, epochs[0])
			a.publish(100)
			h.all(a)
			a.kill()
			b := startInstance(t, ctx, url, epochs[1])
			b.publish(100)
			h.event(a, events.PublisherRestarted)
			b.publish(100)
			h.all(b)
			b.b.Close()
		}
	})
}

// Of three instances at a time one is killed, one is closed and one continues.
func TestThreeInstances(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	instanceFabrics(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		h := listen(t, ctx, url)
		a, b, c := startInstance(t, ctx, url, 3000), startInstance(t, ctx, url, 1000), startInstance(t, ctx, url, 2000)
		for range 100 {
			a.publish(1)
			b.publish(1)
			c.publish(1)
		}
		h.all(a, b, c)
		a.b.Close()
		b.kill()
		c.publish(100)
		h.all(c)
		h.event(a, events.PublisherEnded)
		h.event(b, events.PublisherRestarted)
		c.publish(1)
		h.all(c)
	})
}

// A duplicate name is reported: to subscriptions, to their bus, and to the buses with the name if they subscribe.
func TestDuplicateName(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	instanceFabrics(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		reported := make(chan events.Event, 100)
		h := listen(t, ctx, url)
		watch := openBus(t, Config{OnEvent: func(e events.Event) {
			if e.Kind == events.DuplicateName {
				reported <- e
			}
		}}, url)
		subscribe(t, watch, "x")
		a := startInstance(t, ctx, url, 1000)
		wait(t, ctx, a.p, 2) // watch has received it, too
		a.publish(1)
		h.all(a)
		b := startInstance(t, ctx, url, 2000)
		mine := subscribe(t, b.b, "x", PublisherEvents())
		b.publish(1)
		h.event(b, events.DuplicateName)
		e := <-reported
		if e.Name != "feed" || e.Publisher != a.b.ID() || e.Epoch != 2000 || e.OtherEpoch != 1000 {
			t.Errorf("event %+v, want feed with epochs 2000 and 1000", e)
		}
		if e.Address == "" || e.OtherAddress == "" || e.Address == e.OtherAddress {
			t.Errorf("addresses %q and %q, want two different ones", e.Address, e.OtherAddress)
		}
		if s := e.String(); !strings.Contains(s, "feed") || !strings.Contains(s, e.OtherAddress) || !strings.Contains(s, "Config.Name") {
			t.Errorf("event text %q, want the name feed, the address %s and Config.Name", s, e.OtherAddress)
		}
		for {
			_, err := mine.Next(ctx)
			var e *PublisherEvent
			if errors.As(err, &e) && e.Kind == events.DuplicateName {
				if e.Epoch != 1000 || e.OtherEpoch != 2000 {
					t.Errorf("event %+v, want epochs 1000 and 2000", e)
				}
				break
			}
			if err != nil && e == nil {
				t.Fatal(err)
			}
		}
		if n := len(reported); n > 0 {
			t.Errorf("%d more events, want none", n)
		}
	})
}

// docs/protocol §3.12.
func TestNameIsChecked(t *testing.T) {
	for name, ok := range map[string]bool{
		"": true, "feed": true, "Börse-1": true, strings.Repeat("n", 64): true,
		strings.Repeat("n", 65): false, "a b": false, "a\x1b[2J": false, "\xff": false, "\n": false,
	} {
		b, err := Config{Name: name, Logger: quiet}.Open(context.Background(), memURL(t))
		if err == nil {
			b.Close()
		}
		if (err == nil) != ok {
			t.Errorf("name %q: error %v, want it accepted: %v", name, err, ok)
		}
	}
}

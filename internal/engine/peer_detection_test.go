package engine

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// openOn opens a loop on a network and returns the loop and its log. Different networks do not reach each other.
func openOn(t *testing.T, network, iface string) (*Loop, *strings.Builder) {
	t.Helper()
	tr, err := mem.Open(mem.Config{Name: t.Name() + network})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	l := start(tr, Config{Interface: iface, RecentEvents: 8, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		l.Close(now)
	})
	return l, &out
}

// quiet is a handler that ignores its messages.
var quiet = handlerFuncs{
	message: func(*reliable.Origin, *topics.Track, uint64, []byte) {},
	run: func(_ *reliable.Origin, _ *topics.Track, number uint64, body []byte, step, _ int) ([]byte, uint64) {
		n := len(body) / step
		return body[n*step:], number + uint64(n)
	},
	other: func(*Delivery) {},
}

func eventCount(l *Loop, k events.Kind) uint64 { return l.counters.events[k].Load() }

// A bus without a detected peer, for example on the wrong interface, reports that once with the interface's name.
// Buses that detect each other, that need no peer, or that have no interface report nothing.
func TestUndetected(t *testing.T) {
	for _, c := range []struct {
		name, pub, sub string // networks
		iface          string
		publish, waits bool
		subscribe      string
		noSub, noPub   uint64
	}{
		{"on different networks", "a", "b", "eth0", true, false, "x", 1, 1},
		{"waits for a subscriber on another network", "a", "b", "eth0", false, true, "x", 1, 1},
		{"on one network", "a", "a", "eth0", true, false, "x", 0, 0},
		{"on another topic of the group", "a", "a", "eth0", true, false, "y", 1, 0},
		{"a pattern of the group", "a", "a", "eth0", true, false, "y.>", 0, 0}, // a publisher sees no patterns: the subscriber may want x
		{"a pattern of the group, that leaves", "a", "a", "eth0", true, false, "y.>", 0, 0},
		{"a pattern on another network", "a", "b", "eth0", true, false, "x.>", 1, 1},
		{"no message and no subscription", "a", "b", "eth0", false, false, "", 0, 0},
		{"without an interface", "a", "b", "", true, false, "x", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pub, pubLog := openOn(t, c.pub, c.iface)
				sub, subLog := openOn(t, c.sub, c.iface)
				var s *Subscription
				if c.subscribe != "" {
					var err error
					if s, err = sub.Subscribe([]TopicName{named(t, c.subscribe)}, policyAuto, From{}, false, quiet); err != nil {
						t.Fatal(err)
					}
				}
				p, topic := publication(t, pub, "x")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if c.publish {
					if err := p.Publish(ctx, topic, []byte("m"), true); err != nil {
						t.Fatal(err)
					}
				}
				if c.waits {
					go p.WaitReceivers(ctx, topic.ID, 1)
				}
				time.Sleep(undetectedAfter - detectionEvery)
				if eventCount(pub, events.NoSubscriberHeard)+eventCount(sub, events.NoPublisherHeard) != 0 {
					t.Errorf("a missing peer was reported before %v, want no report yet", undetectedAfter)
				}
				if strings.HasSuffix(c.name, "leaves") {
					s.Close()
				}
				time.Sleep(10 * undetectedAfter)
				synctest.Wait()
				for _, side := range []struct {
					l    *Loop
					log  *strings.Builder
					kind events.Kind
					want uint64
					text string
				}{
					{pub, pubLog, events.NoSubscriberHeard, c.noSub, "topics=x interface=eth0"},
					{sub, subLog, events.NoPublisherHeard, c.noPub, "topics=" + c.subscribe + " interface=eth0"},
				} {
					if n := eventCount(side.l, side.kind); n != side.want {
						t.Errorf("%v was reported %d times, want %d", side.kind, n, side.want)
					}
					if n := strings.Count(side.log.String(), side.text); n != int(side.want) {
						t.Errorf("%d lines have %q, want %d:\n%s", n, side.text, side.want, side.log)
					}
				}
				noSub, _ := pub.Undetected()
				_, noPub := sub.Undetected()
				if noSub > 0 != (c.noSub > 0) || noPub > 0 != (c.noPub > 0) {
					t.Errorf("no subscriber for %v and no publisher for %v, want above 0: %v and %v", noSub, noPub, c.noSub > 0, c.noPub > 0)
				}
			})
		})
	}
}

// After a peer is detected the bus no longer counts as undetected.
func TestUndetectedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pub, _ := openOn(t, "a", "eth0")
		p, topic := publication(t, pub, "x")
		if err := p.Publish(t.Context(), topic, []byte("m"), true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * undetectedAfter)
		if d, _ := pub.Undetected(); d < undetectedAfter {
			t.Errorf("no subscriber detected for %v, want at least %v", d, undetectedAfter)
		}
		sub, _ := openOn(t, "a", "eth0")
		subscribeTo(t, sub, named(t, "x"), policyAuto, quiet)
		time.Sleep(2 * undetectedAfter)
		_, noPub := sub.Undetected()
		if d, _ := pub.Undetected(); d != 0 || noPub != 0 || eventCount(sub, events.NoPublisherHeard) != 0 {
			t.Errorf("no peer detected for %v and %v, want 0 after both detect each other, and no report", d, noPub)
		}
	})
}

// Time in which the loop did not run does not count as time without a peer.
func TestUndetectedAcrossStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pub, _ := openOn(t, "a", "eth0")
		other, _ := openOn(t, "a", "")
		blocks := quiet
		blocks.run = func(o *reliable.Origin, x *topics.Track, number uint64, body []byte, step, size int) ([]byte, uint64) {
			time.Sleep(20 * time.Second)
			return quiet.run(o, x, number, body, step, size)
		}
		blocks.message = func(*reliable.Origin, *topics.Track, uint64, []byte) { time.Sleep(20 * time.Second) }
		subscribeTo(t, pub, named(t, "y"), policyAuto, blocks)
		standstill := func() {
			p, topic := publication(t, other, "y")
			if err := p.WaitReceivers(t.Context(), topic.ID, 1); err != nil {
				t.Fatal(err)
			}
			if err := p.Publish(t.Context(), topic, []byte("m"), true); err != nil {
				t.Fatal(err)
			}
			time.Sleep(21 * time.Second)
		}
		standstill()
		p, topic := publication(t, pub, "x")
		if err := p.Publish(t.Context(), topic, []byte("m"), true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * undetectedAfter)
		before, _ := pub.Undetected()
		if before < undetectedAfter || before > 2*undetectedAfter {
			t.Errorf("after a standstill: no subscriber for %v, want %v to %v", before, undetectedAfter, 2*undetectedAfter)
		}
		standstill()
		if d, _ := pub.Undetected(); d < before || d > before+undetectedAfter {
			t.Errorf("across a standstill: no subscriber for %v, want %v to %v", d, before, before+undetectedAfter)
		}
	})
}

func named(t *testing.T, name string) TopicName {
	t.Helper()
	p, err := pattern.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return TopicName{Name: name, Pattern: p}
}

// A bus that subscribes only to patterns, and knows no topic yet, may want any topic of another bus.
func TestPatternIsRelevant(t *testing.T) {
	_, l := newLoop(t, Config{})
	if _, err := l.Subscribe([]TopicName{named(t, "x.*")}, policyAuto, From{}, false, handlerFuncs{}); err != nil {
		t.Fatal(err)
	}
	var filter wire.TopicFilter
	filter.Add(wire.TopicID("x.a"))
	if err := l.do(func() {
		if !l.hellos.Relevant(&filter, false) {
			t.Error("Relevant returned false for x.a with a subscription to x.*, want true")
		}
	}); err != nil {
		t.Fatal(err)
	}
}

package pubsub

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Sealed groups work over RoCEv2 in user space and over simulated subnets that lose packets: a stream arrives complete,
// requests have replies, and a bus without the key receives nothing and reports why. docs/protocol §27.1, §27.8.
func TestSealedOverRDMA(t *testing.T) {
	const n = 20_000 // in packets of 1,024 bytes, some of which are lost
	for _, c := range []struct {
		name    string
		url     func(t testing.TB) string
		options string
		faults  string // for fabrics that lose nothing themselves
	}{
		{"roce", roceURL, "?size=1024", "loss=0.05,seed=7"},
		{"sim", simURL, "?size=1024&loss=0.05&seed=" + simSeed(t), ""},
		{"sim as RoCE", simURL, "?flavor=roce&mtu=1024&size=900&loss=0.05&seed=" + simSeed(t), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			open := strings.ReplaceAll(c.url(t), " ", "_") + c.options
			url := withKeys(open, keyFile(t, newKey(t)))
			reported := make(chan events.Event, 100)
			outside := openBus(t, Config{OnEvent: func(e events.Event) {
				if e.Kind == events.PacketsUnreadable {
					reported <- e
				}
			}}, open)
			outsider := subscribe(t, outside, "x")
			pubBus, subBus := openBus(t, Config{Faults: c.faults}, url), openBus(t, Config{Faults: c.faults}, url)
			streamAndRequests(t, ctx, pubBus, subBus, n, 100)
			someMissed(t, subBus)
			for _, b := range []*Bus{pubBus, subBus} {
				if s := b.Stats().Seal; s.Forged+s.UnknownKey != 0 || s.Senders == 0 {
					t.Errorf("packets refused without an attacker: %+v, want none", s)
				}
			}
			nothing(t, outsider)
			select {
			case e := <-reported:
				var why *UnreadableError
				if !errors.As(e.Err, &why) || !strings.Contains(e.String(), "and this bus has no keys") {
					t.Errorf("event %v, want an UnreadableError, and that this bus has no keys", e)
				}
			case <-time.After(testTimeout):
				t.Error("a bus without the key does not report that it can read nothing")
			}
		})
	}
}

// streamAndRequests sends n messages from one bus to the other, and requests with their replies.
func streamAndRequests(t *testing.T, ctx context.Context, pubBus, subBus *Bus, n, requests int) {
	t.Helper()
	responder, err := subBus.Handle("q", func(m Message, err error) {
		if err == nil && m.IsRequest() {
			m.Respond(m.Data)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer responder.Close()
	sub, pub := subscribe(t, subBus, "x"), publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	wait(t, ctx, publisher(t, pubBus, "q"), 1)
	go publishAll(t, ctx, pub, n)
	expectAll(t, ctx, sub, n)
	for range requests {
		if r, err := pubBus.Request(ctx, "q", []byte("ask")); err != nil || string(r.Data) != "ask" {
			t.Fatalf("reply %q, error %v, want ask", r.Data, err)
		}
	}
}

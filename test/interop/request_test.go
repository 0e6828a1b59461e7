package interop

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// Python replies to requests of Go, once each, with loss. docs/protocol §24.2, §24.4.
func TestRequestGoToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	sub := subscribeFaulty(t, ctx, net, "loss=0.05,dup=0.02,reorder=0.05", streams(), "--echo")
	bus := net.open(t, ctx, pubsub.Config{Faults: "loss=0.05"})
	msgs := net.messages(400)
	publishers(t, ctx, bus, 1)
	var wg sync.WaitGroup
	next := make(chan message)
	for range 8 {
		wg.Go(func() {
			for m := range next {
				r, err := bus.Request(ctx, m.topic, m.data)
				if err != nil || !bytes.Equal(r.Data, m.data) {
					t.Errorf("request of %d bytes on %s, reply of %d bytes, error %v, want the same bytes", len(m.data), m.topic, len(r.Data), err)
				}
			}
		})
	}
	for _, m := range msgs {
		next <- m
	}
	close(next)
	wg.Wait()
	bus.Close()
	sum := sub.until(ofType("summary"), nil)
	if sum.Counters["executed_twice"] != 0 || sum.Counters["recalled"] == 0 {
		t.Errorf("requests executed twice, or no reply recalled: %v", sum.Counters)
	}
}

// The same from Python to Go: pub.py exits when all requests are answered. docs/protocol §24.3.
func TestRequestPythonToGo(t *testing.T) {
	ctx, net := testContext(t), newNetwork(t)
	bus, _ := net.listen(t, ctx)
	var requests atomic.Int64
	for _, topic := range topics {
		if _, err := bus.Handle(topic, func(m pubsub.Message, err error) {
			if err != nil || !m.IsRequest() {
				t.Errorf("want a request, got %d bytes, error %v", len(m.Data), err)
				return
			}
			requests.Add(1)
			if err := m.Respond(m.Data); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	msgs := net.messages(400)
	pub := publishFaulty(t, ctx, net, "loss=0.05", msgs, "--requests")
	want := newChecker(t, msgs).want
	left := len(msgs)
	sum := pub.until(ofType("summary"), func(l line) {
		if l.Type != "reply" {
			return
		}
		if !bytes.Equal(l.Data, want[l.Topic][l.Number]) {
			t.Errorf("the reply to message %d on %s has %d bytes, want %d", l.Number, l.Topic, len(l.Data), len(want[l.Topic][l.Number]))
		}
		left--
	})
	if left != 0 || requests.Load() != int64(len(msgs)) || sum.Counters["recalls"] == 0 {
		t.Errorf("%d requests executed, want %d, %d without a reply, want none, counters %v", requests.Load(), len(msgs), left, sum.Counters)
	}
}

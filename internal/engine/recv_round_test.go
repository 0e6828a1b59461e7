package engine

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/faulty"
)

// If a handler is slower than the publisher, repairs wait in the receive queue. They are not requested again meanwhile.
func TestSlowHandlerRequestsRepairsOnce(t *testing.T) { synctest.Test(t, slowHandler) }

func slowHandler(t *testing.T) {
	const messages = 20_000
	_, from := newLoop(t, Config{Wait: WaitPark})
	p, topic := publication(t, from, "x")
	var lossy *faulty.Transport
	_, to := newLoopOver(t, Config{Wait: WaitPark}, func(tr transport.Transport) transport.Transport {
		lossy = faulty.New(tr, faulty.Config{Loss: 0.01, Seed: 7})
		return lossy
	})
	var delivered atomic.Uint64
	slow := func(n uint64) {
		time.Sleep(time.Duration(n) * 20 * time.Microsecond)
		delivered.Add(n)
	}
	_, err := to.Subscribe([]TopicName{{Name: "x", Group: 0}}, policyAuto, From{}, false, handlerFuncs{
		message: func(*reliable.Origin, *topics.Track, uint64, []byte) { slow(1) },
		run: func(_ *reliable.Origin, _ *topics.Track, number uint64, body []byte, step, maxBytes int) ([]byte, uint64) {
			for {
				_, rest, ok := topics.NextMessage(body, step, maxBytes)
				if !ok {
					return body, number
				}
				slow(1)
				body = rest
				number++
			}
		},
		other: func(d *Delivery) { t.Errorf("delivery %+v, want only messages", d) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.WaitReceivers(t.Context(), topic.ID, 1); err != nil {
		t.Fatal(err)
	}
	for m := make([]byte, 1300); delivered.Load() < messages; {
		if err := p.Publish(t.Context(), topic, m, true); err != nil {
			t.Fatal(err)
		}
	}
	p.mu.Lock()
	st := p.s.Stats()
	p.mu.Unlock()
	lost := lossy.Stats().Injected
	t.Logf("%d repairs of %d lost packets", st.RepairsSent, lost)
	if float64(st.RepairsSent) > 1.05*float64(lost) {
		t.Errorf("%d repairs of %d lost packets, want at most 1.05 each", st.RepairsSent, lost)
	}
}

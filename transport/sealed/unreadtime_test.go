package sealed

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// stoppable is a transport whose process is stopped during its next Wait.
type stoppable struct {
	transport.Transport
	now     *time.Time
	waits   time.Duration // time in Wait until a packet arrives
	stopped time.Duration // time for which the process is then stopped
}

func (s *stoppable) Wait(time.Duration) error {
	*s.now = s.now.Add(s.waits + s.stopped)
	return nil
}

// Packets that arrived before or while a process was stopped are judged by their time of arrival: they are accepted,
// however long the stop lasted, unless they were already too old or accepted before. When all are read, or nothing is
// pending during a Wait, the current time counts. docs/protocol §27.6.
func TestUnread(t *testing.T) {
	net, now, set := mem.NewNetwork(), base, testSet(t, 1)
	open := func() transport.Transport {
		m, err := mem.Open(mem.Config{Network: net})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		return m
	}
	var inner transport.Transport = open()
	tx, err := inner.NewSender(0)
	if err != nil {
		t.Fatal(err)
	}
	stop := &stoppable{Transport: open(), now: &now}
	rx, err := New(stop, Config{Keys: Static{set}, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if err := rx.Join(0); err != nil {
		t.Fatal(err)
	}
	send := func(p []byte) {
		t.Helper()
		if _, err := tx.Send(&transport.Outbound{Data: p, Stride: len(p), Count: 1, Lens: []uint16{uint16(len(p))}}); err != nil {
			t.Fatal(err)
		}
	}
	b := transport.NewBatch(8)
	poll := func(what string, received int, want uint64) {
		t.Helper()
		now = now.Add(time.Millisecond)
		before, n := rx.Stats().Seal, 0
		for more := true; more; more = b.More {
			if err := rx.Poll(b); err != nil {
				t.Fatal(err)
			}
			for i := range b.Trains {
				n += b.Trains[i].Count()
				rx.Release(&b.Trains[i])
			}
			for _, e := range b.Events {
				if e.Kind == transport.Unreadable && want == 0 {
					t.Errorf("%s: unreadable packets reported: %v", what, e.Err)
				}
			}
		}
		s := rx.Stats().Seal
		if n != received || s.Stale-before.Stale != want {
			t.Errorf("%s: %d accepted and %d refused for their time, want %d and %d", what, n, s.Stale-before.Stale, received, want)
		}
	}
	wait := func(timeout, waits, stopped time.Duration) {
		stop.waits, stop.stopped = waits, stopped
		rx.Wait(timeout)
	}
	first := one(t, set, now)
	send(first)
	poll("when it runs", 1, 0)
	old, later := one(t, set, now.Add(-6*time.Minute)), one(t, set, now)
	send(one(t, set, now))
	send(old)
	send(first)
	wait(time.Second, time.Second, 20*time.Minute)
	send(one(t, set, now))
	poll("stopped for 20 minutes", 2, 1)
	send(later)
	poll("replayed after those were read", 0, 1)
	old = one(t, set, now)
	wait(-1, time.Hour, 0)
	send(old)
	poll("after an hour in which nothing arrived", 0, 1)
	send(one(t, set, now))
	now = now.Add(7 * time.Minute)
	poll("stopped outside of Wait", 1, 0)
}

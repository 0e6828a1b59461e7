package sealed

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// stoppable is a transport of a process that is stopped in its next Wait.
type stoppable struct {
	transport.Transport
	now     *time.Time
	waits   time.Duration // until something comes
	stopped time.Duration // for how long, after that
}

func (s *stoppable) Wait(time.Duration) error {
	*s.now = s.now.Add(s.waits + s.stopped)
	return nil
}

// Packets that came before a process was stopped, or while it was, are judged by when they came: they are taken, however long
// that lasted. Those that were too old then are not, nor are those that were taken before. As soon as all are read, and while
// the process waits and there is nothing to read, the time counts. docs/protocol §27.6.
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
	poll := func(what string, taken int, want uint64) {
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
					t.Errorf("%s: %v", what, e.Err)
				}
			}
		}
		s := rx.Stats().Seal
		if n != taken || s.Stale-before.Stale != want {
			t.Errorf("%s: %d are taken and %d refused for their time, want %d and %d", what, n, s.Stale-before.Stale, taken, want)
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
	poll("what is played back when that has been read", 0, 1)
	old = one(t, set, now)
	wait(-1, time.Hour, 0)
	send(old)
	poll("behind an hour in which nothing came", 0, 1)
	send(one(t, set, now))
	now = now.Add(7 * time.Minute)
	poll("stopped outside of Wait", 1, 0)
}

package ud_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// A queue pair that accepts sends but completes none is reset: pending sends are released as lost, and later ones are
// sent. The queue does not block forever, whether it is full or not.
func TestStalledSendsRecover(t *testing.T) {
	flavors(t, func(t *testing.T, flavor fabric.Flavor) {
		for _, pending := range []int{1, 16} {
			var log bytes.Buffer
			r := newRig(t, fabric.Config{Flavor: flavor})
			s := newSpy(r.f)
			to := r.node(ud.Config{})
			from := r.node(ud.Config{Provider: s, SendQueue: 16, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			r.join(to, 0)
			out := r.sender(from, 0)
			r.send(out, "before")
			r.want(to, 0, "before")
			r.until("it is completed", func() bool { return out.Completed() == 1 })
			for round := range 3 {
				completed := out.Completed()
				s.swallow = true
				for range pending {
					r.send(out, "owed")
				}
				completed += uint64(pending)
				if n, err := out.Send(one("more")); pending == 16 && (n != 0 || !errors.Is(err, transport.ErrBusy)) {
					t.Fatalf("round %d: a full queue accepted %d packets, error %v, want 0 and %v", round, n, err, transport.ErrBusy)
				} else {
					completed += uint64(n)
				}
				r.until("all accepted packets are released", func() bool { return out.Completed() == completed })
				s.swallow = false
				r.send(out, "after")
				r.want(to, 0, "after")
			}
			if n := strings.Count(log.String(), "makes no progress and is reset"); n == 0 {
				t.Errorf("log lacks the reset of a queue pair without progress:\n%s", log.String())
			}
		}
	})
}

// A loop that waits without a limit is woken for sends that are not completed.
func TestStallIsDetectedInWait(t *testing.T) {
	r := newRig(t, fabric.Config{})
	s := newSpy(r.f)
	s.waiter = &deafWaiter{}
	n := r.node(ud.Config{Provider: s})
	out := r.sender(n, 0)
	n.poll()
	s.swallow = true
	r.send(out, "owed")
	for range 100 {
		n.poll()
		s.waiter.waits = nil
		if err := n.Wait(-1); err != nil {
			t.Fatal(err)
		}
		if out.Completed() == 1 {
			return
		}
		for _, d := range s.waiter.waits {
			if d < 0 {
				t.Fatal("the loop sleeps without a limit while a send is pending")
			}
			r.f.AdvanceTo(r.f.Now() + d)
		}
	}
	t.Fatal("the send is never completed")
}

// Slow sends are not a stall while some are completed. Nor are sends that a loop could not observe because it did not
// run.
func TestSlowSendsAreNotAStall(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, fabric.Config{SendDelay: 700 * time.Millisecond})
	n := r.node(ud.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	out := r.sender(n, 0)
	sent := uint64(0)
	for end := r.f.Now() + 5*time.Second; r.f.Now() < end; {
		if sent-out.Completed() < 3 {
			r.send(out, "slow")
			sent++
		}
		r.quiet(10 * time.Millisecond)
	}
	r.until("all are completed", func() bool { return out.Completed() == sent })
	s := newSpy(r.f)
	held := r.node(ud.Config{Provider: s, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	out = r.sender(held, 0)
	s.swallow = true
	r.send(out, "not polled")
	held.poll()
	r.f.AdvanceTo(r.f.Now() + time.Minute)
	held.poll()
	if log.Len() > 0 {
		t.Errorf("sends that were slow or not polled were released as lost:\n%s", log.String())
	}
}

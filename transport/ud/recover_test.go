package ud_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// When its queue pair goes into the error state, a receiver loses pending packets, and then receives again. Lent
// packets stay unchanged.
func TestReceiverRecovers(t *testing.T) {
	flavors(t, func(t *testing.T, flavor fabric.Flavor) {
		var log bytes.Buffer
		r := newRig(t, fabric.Config{Flavor: flavor})
		lines := &unlocked{Handler: slog.NewTextHandler(&log, nil), t: t}
		to := r.node(ud.Config{ReceiveQueue: 16, Logger: slog.New(lines)})
		lines.of = to.Transport
		from := r.node(ud.Config{})
		r.join(to, 0)
		s := r.sender(from, 0)
		r.send(s, "lent")
		batch := transport.NewBatch(4)
		r.until("a packet is lent", func() bool {
			if err := to.Poll(batch); err != nil {
				t.Fatal(err)
			}
			return len(batch.Trains) > 0
		})
		lent := batch.Trains[0]
		for round := range 3 {
			if err := to.BreakQP(); err != nil {
				t.Fatal(err)
			}
			r.quiet(10 * time.Millisecond)
			for i := range 40 { // more packets than the queue holds: they use every slot
				text := strings.Repeat("x", 10*round+i+1)
				r.send(s, text)
				r.want(to, 0, text)
			}
		}
		if string(lent.Data) != "lent" {
			t.Errorf("lent memory changed to %q", lent.Data)
		}
		to.Release(&lent)
		if n := strings.Count(log.String(), "is reset"); n != 1 {
			t.Errorf("%d warnings, want 1 for failures that follow each other:\n%s", n, log.String())
		}
	})
}

// unlocked is a log handler that fails the test if it is called under a lock of the transport.
type unlocked struct {
	slog.Handler
	t  *testing.T
	of *ud.Transport
}

func (u *unlocked) Handle(ctx context.Context, r slog.Record) error {
	if u.of.Locked() {
		u.t.Errorf("%q is logged under a lock", r.Message)
	}
	return u.Handler.Handle(ctx, r)
}

// When its queue pair goes into the error state, a sender releases pending sends, returns ErrBusy until the queue pair
// works, and receives replies again.
func TestSenderRecovers(t *testing.T) {
	flavors(t, func(t *testing.T, flavor fabric.Flavor) {
		r := newRig(t, fabric.Config{Flavor: flavor})
		to, from := r.node(ud.Config{}), r.node(ud.Config{})
		to.retain = true
		r.join(to, 0)
		s := r.sender(from, 0)
		r.send(s, "before")
		r.want(to, 0, "before")
		for round := range 5 {
			if err := from.BreakQP(); err != nil {
				t.Fatal(err)
			}
			completed := s.Completed()
			r.until("the queue pair sends again", func() bool {
				// A queue pair in the error state accepts and loses it.
				n, err := s.Send(one("after"))
				if completed += uint64(n); n == 0 && !errors.Is(err, transport.ErrBusy) {
					t.Fatal(err)
				}
				return len(to.got) > 0 && to.got[len(to.got)-1] == "after"
			})
			r.until("all sends are released", func() bool { return s.Completed() == completed })
			to.got, to.groups = nil, nil
			from.got, from.groups = nil, nil
			r.until("a reply arrives", func() bool {
				if err := to.Reply(to.peer, []byte("reply")); err != nil {
					t.Fatalf("round %d: Reply: %v", round, err)
				}
				from.poll()
				return len(from.got) > 0 && from.got[0] == "reply"
			})
		}
	})
}

// A receiver whose queue pair is repeatedly put into the error state, as any host can do with rxe of kernel 6.1, still
// receives most packets.
func TestReceivesDuringRecoveries(t *testing.T) {
	r := newRig(t, fabric.Config{})
	to, from := r.node(ud.Config{}), r.node(ud.Config{})
	r.join(to, 0)
	s := r.sender(from, 0)
	const packets, every = 5000, time.Millisecond
	for i := range packets {
		if i%50 == 0 {
			if err := to.BreakQP(); err != nil {
				t.Fatal(err)
			}
		}
		r.send(s, "x")
		r.quiet(every)
	}
	if received := len(to.got); received < packets*8/10 {
		t.Errorf("a queue pair that failed every %v received %d of %d packets, want at least 80 %%", 50*every, received, packets)
	}
}

// A queue pair that fails immediately after every reset, as while the interface is down, is reset less and less often.
func TestRecoveryBacksOff(t *testing.T) {
	r := newRig(t, fabric.Config{})
	n := r.node(ud.Config{})
	s := r.sender(n, 0)
	tries := 0
	for end := r.f.Now() + 10*time.Second; r.f.Now() < end; {
		// It accepts a send only after a reset.
		if k, _ := s.Send(one("x")); k == 1 {
			tries++
			if err := n.BreakQP(); err != nil {
				t.Fatal(err)
			}
		}
		r.quiet(time.Millisecond)
	}
	if tries < 10 || tries > 50 {
		t.Errorf("%d resets within 10 s, want 10 to 50", tries)
	}
}

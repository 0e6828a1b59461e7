//go:build rdma && linux && cgo

package verbs

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// PollFor polls for about the given time, and returns completions immediately.
func TestPollFor(t *testing.T) {
	r := newRig(t, testHosts(t)[0])
	ah := r.join(testGroup(6), rdma.JoinSendOnlyFullMember)
	cq := r.cq.(rdma.Spinner)
	wcs := make([]rdma.WorkCompletion, 4)
	for _, limit := range []time.Duration{maxSpin / 2, time.Hour} {
		start := time.Now()
		n, err := cq.PollFor(wcs, limit)
		if n != 0 || err != nil {
			t.Errorf("polling an empty queue returns %d, error %v, want 0 and none", n, err)
		}
		if elapsed := time.Since(start); elapsed < min(limit, maxSpin) {
			t.Errorf("with a limit of %v it polled for %v, want %v or more", limit, elapsed, min(limit, maxSpin))
		}
	}
	if n, err := cq.PollFor(nil, maxSpin); n != 0 || err != nil {
		t.Errorf("polling with an empty batch returns %d, error %v, want 0 and none", n, err)
	}
	for range 10 {
		_, err := r.qp.PostSend([]rdma.SendWR{r.sendWR(ah, "x"), r.sendWR(ah, "y")})
		r.must(err)
		for got := 0; got < 2; {
			n, err := cq.PollFor(wcs, maxSpin)
			r.must(err)
			for _, wc := range wcs[:n] {
				if wc.Status != rdma.WCSuccess || wc.Opcode != rdma.WCSend {
					t.Errorf("completion %+v, want a successful send", wc)
				}
			}
			got += n
		}
	}
	if n := testing.AllocsPerRun(50, func() { cq.PollFor(wcs, time.Microsecond) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// The cost of spinning: a poll of an empty queue from Go, and one of those that PollFor makes in C.
func BenchmarkPoll(b *testing.B) {
	r := newRig(b, testHosts(b)[0])
	wcs := make([]rdma.WorkCompletion, 16)
	b.Run("from Go", func(b *testing.B) {
		for b.Loop() {
			r.cq.Poll(wcs)
		}
	})
	b.Run("for 2µs in C", func(b *testing.B) {
		cq := r.cq.(rdma.Spinner)
		for b.Loop() {
			cq.PollFor(wcs, 2*time.Microsecond)
		}
	})
}

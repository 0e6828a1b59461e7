package engine

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// When a train that the transport did not accept is sent again, and whether the failure is reported.
func TestOutletTriesAgain(t *testing.T) {
	now := reliable.Instant(time.Second)
	for _, c := range []struct {
		err   error
		after time.Duration
		want  bool
	}{
		{nil, busyRetry, true}, // the transport accepts half a train, without an error
		{transport.ErrBusy, busyRetry, false},
		{fmt.Errorf("ring: %w", transport.ErrBusy), busyRetry, false},
		{transport.ErrNotReady, readyRetry, false},
		{syscall.ENETUNREACH, busyRetry, true},
	} {
		var o outlet
		if o.deadline() != reliable.Never {
			t.Fatalf("an idle outlet has deadline %v, want none", o.deadline())
		}
		o.refused(now, c.err)
		if reported := o.failed.Load() != nil; reported != c.want || !o.busy || o.deadline() != now.Add(c.after) {
			t.Errorf("%v: reported %v, again after %v, want %v and %v", c.err, reported, o.deadline().Sub(now), c.want, c.after)
		}
	}
	var o outlet
	var reported []int
	for i := range 20 {
		o.refused(now, syscall.EPERM)
		if f := o.failed.Swap(nil); f != nil {
			reported = append(reported, i+1)
		}
	}
	if !slices.Equal(reported, []int{1, 2, 4, 8, 16}) {
		t.Errorf("failures %v reported, want 1, 2, 4, 8 and 16", reported)
	}
}

// While the transport is busy nothing can be sent, so the publication is not due, whatever else is.
func TestBusyIsNotDue(t *testing.T) {
	_, l := newLoop(t, Config{})
	p, _ := publication(t, l, "x")
	p.mu.Lock()
	defer p.mu.Unlock()
	later := l.now().Add(time.Hour)
	p.out.busy, p.out.retryAt = true, later
	if d := p.deadline(); d != later {
		t.Errorf("due in %v, want in an hour", d.Sub(l.now()))
	}
}

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

// When a train that the transport has not taken is tried again, and whether the log reports it.
func TestOutletTriesAgain(t *testing.T) {
	now := reliable.Instant(time.Second)
	for _, c := range []struct {
		err   error
		after time.Duration
		tell  bool
	}{
		{nil, busyRetry, true}, // a transport that takes half a train without a reason
		{transport.ErrBusy, busyRetry, false},
		{fmt.Errorf("ring: %w", transport.ErrBusy), busyRetry, false},
		{transport.ErrNotReady, readyRetry, false},
		{syscall.ENETUNREACH, busyRetry, true},
	} {
		var o outlet
		if o.deadline() != reliable.Never {
			t.Fatal("an idle outlet has a deadline")
		}
		o.refused(now, c.err)
		if tell := o.failed.Load() != nil; tell != c.tell || !o.busy || o.deadline() != now.Add(c.after) {
			t.Errorf("%v: reported %v, again after %v", c.err, tell, o.deadline().Sub(now))
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
		t.Errorf("failures %v were reported", reported)
	}
}

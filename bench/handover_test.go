package bench

import (
	"runtime"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// Two processors that run at the same time now and then are seen to, and one is not.
func TestHandover(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		if ns := handover(); ns != 0 {
			t.Errorf("one processor: %v ns", ns)
		}
		return
	}
	for len(appendHandover(nil)) == 0 { // on a busy host they may not run at the same time at once
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if ns := handover(); ns != 0 {
		t.Errorf("one processor: %v ns", ns)
	}
}

// Who is not answered gives up when its time is over.
func TestHandoverUnanswered(t *testing.T) {
	var b ball
	if ns := b.trips(0); ns != 0 || b.Load() != 0 {
		t.Errorf("no time: %v ns, %d", ns, b.Load())
	}
	if ns := b.trips(worker.Now() + int64(time.Millisecond)); ns != 0 || b.Load() != 1 {
		t.Errorf("%v ns, %d", ns, b.Load())
	}
}

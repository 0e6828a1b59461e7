package bench

import (
	"runtime"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// Two processors have a round trip, and one has none.
func TestHandover(t *testing.T) {
	if min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) > 1 {
		for deadline := time.Now().Add(time.Minute); handover() == 0; { // on a busy host two threads may rarely run at the same time
			if time.Now().After(deadline) {
				t.Fatal("no round trip in a minute")
			}
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if ns, list := handover(), appendHandover(nil); ns != 0 || len(list) > 0 {
		t.Errorf("one processor: %v ns, %v", ns, list)
	}
}

// Who is not answered gives up when its time is over.
func TestHandoverUnanswered(t *testing.T) {
	var b ball
	if ns := b.trips(0); ns != 0 || b.Load() != 0 {
		t.Errorf("no time: %v ns, %d", ns, b.Load())
	}
	if ns := b.trips(worker.Now() + int64(time.Millisecond)); ns != 0 || b.Load() > 1 {
		t.Errorf("%v ns, %d", ns, b.Load())
	}
}

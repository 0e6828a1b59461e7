package bench

import (
	"runtime"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// With two processors there is a round trip, with one there is none.
func TestHandover(t *testing.T) {
	if min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) > 1 {
		for deadline := time.Now().Add(time.Minute); handover() == nil; { // on a busy host two threads may rarely run at the same time
			if time.Now().After(deadline) {
				t.Fatal("no round trip in a minute")
			}
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if ns := handover(); ns != nil {
		t.Errorf("handover on one processor took %v ns, want no figures", ns)
	}
}

// A side without an answer gives up at its deadline.
func TestHandoverUnanswered(t *testing.T) {
	if new(sharedLine).await(1, worker.Now()+int64(time.Millisecond)) {
		t.Error("an answer was received")
	}
}

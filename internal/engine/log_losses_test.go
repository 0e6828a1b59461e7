package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// A few losses have one line each. Many losses have one line a second, with the number of lines and packets left out.
func TestLossNotes(t *testing.T) {
	n := newLossNotes()
	now := reliable.Instant(time.Hour)
	logged := 0
	for range 1000 {
		if lines, packets, ok := n.allow(now, 3); ok {
			if logged++; lines != 0 || packets != 0 {
				t.Errorf("line %d: %d lines of %d packets left out, want 0", logged, lines, packets)
			}
		}
	}
	if logged != lossesAtOnce {
		t.Errorf("%d lines at once, want %d", logged, lossesAtOnce)
	}
	const left = 1000 - lossesAtOnce
	if lines, packets, ok := n.allow(now.Add(lineEvery), 3); !ok || lines != left || packets != 3*left {
		t.Errorf("a second later: logged %v, %d lines of %d packets left out, want true, %d of %d", ok, lines, packets, left, 3*left)
	}
	if _, _, ok := n.allow(now.Add(lineEvery), 3); ok {
		t.Error("a second line in that second is allowed, want it left out")
	}
}

package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// A few losses each have their line; of many there is one a second, with what the others
// have lost.
func TestLossNotes(t *testing.T) {
	n := newLossNotes()
	now := reliable.Instant(time.Hour)
	said := 0
	for range 1000 {
		if lines, packets, ok := n.allow(now, 3); ok {
			if said++; lines != 0 || packets != 0 {
				t.Errorf("line %d says that %d lines of %d packets were left out", said, lines, packets)
			}
		}
	}
	if said != lossesAtOnce {
		t.Errorf("%d lines at once, want %d", said, lossesAtOnce)
	}
	const left = 1000 - lossesAtOnce
	if lines, packets, ok := n.allow(now.Add(lineEvery), 3); !ok || lines != left || packets != 3*left {
		t.Errorf("a second later: said is %v, %d lines of %d packets were left out, want %d of %d", ok, lines, packets, left, 3*left)
	}
	if _, _, ok := n.allow(now.Add(lineEvery), 3); ok {
		t.Error("two lines in that second")
	}
}

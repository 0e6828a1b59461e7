package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

func TestUnusedGroup(t *testing.T) {
	const s = reliable.Instant(time.Second)
	u := unusedGroup{leaveAt: reliable.Never}
	for i, c := range []struct {
		now  reliable.Instant
		used bool
		due  bool
		at   reliable.Instant
	}{
		{1 * s, true, false, reliable.Never},
		{2 * s, false, false, 7 * s},
		{4 * s, false, false, 7 * s},
		{5 * s, true, false, reliable.Never}, // subscribed again
		{6 * s, false, false, 11 * s},
		{11*s - 1, false, false, 11 * s},
		{11 * s, false, true, 11 * s},
	} {
		if due := u.due(c.now, c.used, leaveAfter); due != c.due || u.leaveAt != c.at {
			t.Errorf("step %d: due %v, leave at %d, want %v and %d", i, due, u.leaveAt, c.due, c.at)
		}
	}
}

package round

import "testing"

// A round ends when as much was polled as remained after its first Poll, or when nothing is left.
func TestRound(t *testing.T) {
	var r Round
	for i, x := range []struct {
		read, queued int
		more         bool
	}{
		{0, 0, false},
		{16, 20, true}, // 20 to go
		{16, 100, true},
		{16, 1000, false}, // more arrive than are polled
		{16, 5, true},     // the next round
		{3, 0, false},
		{16, 30, true},
		{0, 30, true}, // nothing may be lent
		{16, 0, false},
	} {
		if more := r.EndPoll(x.read, x.queued); more != x.more {
			t.Errorf("step %d: EndPoll = %v, want %v", i, more, x.more)
		}
	}
}

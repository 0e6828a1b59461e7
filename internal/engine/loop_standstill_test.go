package engine

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// A loop that runs late by two seconds stood still; one that sleeps as long as it may, or
// whose turn takes long, did not.
func TestStandstill(t *testing.T) {
	at := func(d time.Duration) reliable.Instant { return reliable.Instant(time.Hour + d) }
	for _, c := range []struct {
		name                  string
		ended, deadline, next time.Duration
		want                  time.Duration
	}{
		{"at once", 0, 0, 0, 0},
		{"in time", 0, 5 * time.Second, 5 * time.Second, 0},
		{"woken early", 0, time.Minute, time.Second, 0},
		{"a little late", 0, time.Second, 2900 * time.Millisecond, 0},
		{"late", 0, time.Second, 4 * time.Second, 2900 * time.Millisecond},
		{"late, and did not want to sleep", 0, -time.Second, 3 * time.Second, 2900 * time.Millisecond},
	} {
		var x standstill
		x.ran(at(c.ended), false)
		x.runs.Rests(at(c.deadline))
		if x.ran(at(c.next), false); x.stood != c.want {
			t.Errorf("%s: %v, want %v", c.name, x.stood, c.want)
		}
	}
	for _, handled := range []bool{false, true} {
		var x standstill
		x.ran(at(0), false)
		if x.ran(at(3*time.Second), handled); (x.stood > 0) == handled {
			t.Errorf("a turn of 3 s, with handlers %v: stood still for %v", handled, x.stood)
		}
	}
	var x standstill
	x.ran(at(0), false)
	x.runs.Rests(reliable.Never)
	if x.ran(at(time.Hour), false); x.stood != 0 {
		t.Errorf("a loop with nothing to do stood still for %v", x.stood)
	}
}

package driver

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
		{"late", 0, time.Second, 4 * time.Second, 3 * time.Second},
		{"late, and did not want to sleep", 0, -time.Second, 2 * time.Second, 2 * time.Second},
	} {
		var x standstill
		x.began = at(c.ended)
		x.end(at(c.ended), at(c.deadline), false)
		if x.begin(at(c.next)); x.stood != c.want {
			t.Errorf("%s: %v, want %v", c.name, x.stood, c.want)
		}
	}
	for _, handled := range []bool{false, true} {
		var x standstill
		x.begin(at(0))
		if x.end(at(3*time.Second), 0, handled); (x.stood == 3*time.Second) == handled {
			t.Errorf("a turn of 3 s, with handlers %v: stood still for %v", handled, x.stood)
		}
	}
	var x standstill
	x.began = at(0)
	x.end(at(0), reliable.Never, false)
	if x.begin(at(time.Hour)); x.stood != 0 {
		t.Errorf("a loop with nothing to do stood still for %v", x.stood)
	}
}

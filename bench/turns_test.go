package bench

import (
	"math"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// momentsOf has a subscriber receive so many messages a second until it ends, in windows that are looked at and in the others,
// on a host that gets slower all the time.
func momentsOf(t turns, from, to time.Duration, watched, beside float64) (all []worker.Moment) {
	n := 0.0
	for at := from; at < to; at += time.Millisecond {
		all = append(all, worker.Moment{At: t.began + int64(at), Messages: uint64(n)})
		rate := beside
		if at >= 0 && at/t.window%2 == 1 {
			rate = watched
		}
		n += rate / 1e3 * (1 - at.Seconds()/100)
	}
	return all
}

// What being looked at costs is told by windows that follow each other, whatever the host does meanwhile.
func TestTurns(t *testing.T) {
	const second = int64(time.Second)
	for _, run := range []time.Duration{2 * time.Second, 10 * time.Second, 60 * time.Second} {
		x := newTurns(100*second, run)
		r, ok := x.ratio(momentsOf(x, -run/20, run-run/20, 0.9e6, 1e6))
		if !ok || math.Abs(r-0.9) > 0.001 {
			t.Errorf("a run of %v: %v, %v, want 0.9", run, r, ok)
		}
		if _, ok := x.ratio(momentsOf(x, -run/20, 2*x.window, 0.9e6, 1e6)); ok {
			t.Errorf("a run of %v that has ended early is judged", run)
		}
		if r, ok := x.ratio(momentsOf(x, x.window/2, run-run/20, 0.9e6, 1e6)); !ok || math.Abs(r-0.9) > 0.001 {
			t.Errorf("a run of %v that has begun late: %v, %v", run, r, ok)
		}
	}
	if _, ok := (turns{}).ratio(nil); ok {
		t.Error("who is not looked at is judged")
	}
}

// One is looked at each second, in every second window.
func TestTurnsWait(t *testing.T) {
	x := turns{began: int64(time.Hour), window: 2500 * time.Millisecond}
	var looks []time.Duration
	for now, last := x.began-int64(time.Second), int64(0); now < x.began+int64(10*time.Second); last = now {
		now += int64(x.wait(now, last))
		looks = append(looks, time.Duration(now-x.began))
	}
	want := []time.Duration{2500, 3500, 4500, 7500, 8500, 9500, 12500}
	for i := range want {
		if len(looks) != len(want) || looks[i] != want[i]*time.Millisecond {
			t.Fatalf("looked at after %v, want %v", looks, want)
		}
	}
}

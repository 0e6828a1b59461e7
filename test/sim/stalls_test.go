package sim

import (
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// stopping returns a publisher that releases subscribers after a second, two subscribers that read,
// and one whose reader stops for a while.
func stopping(seed uint64, messages int, stop time.Duration) Options {
	o := Simple(seed, 3, messages)
	o.Publishers[0].Lives[0].Stop = StopNever
	o.Publishers[0].Gap = 2 * time.Millisecond // 10,000 messages/s or more
	o.Publishers[0].StallLimit = time.Second
	o.Publishers[0].Window = 64
	x := &o.Subscribers[2]
	x.InPlace, x.Window = false, 100*1472
	x.Readers = []Reader{{Block: true, Stops: []Pause{{At: 50 * time.Millisecond, For: stop}}}}
	return o
}

// A reader that stops for longer than the limit blocks the publisher only up to the limit. The
// others lose nothing, and it has exact gaps, only of that cause.
func TestStoppedReader(t *testing.T) {
	for _, c := range []struct {
		name     string
		messages int
		stop     time.Duration
		released uint64
	}{
		{"shorter than the limit", 20_000, 900 * time.Millisecond, 0},
		{"longer", 20_000, 2500 * time.Millisecond, 1},
		{"longer than the publisher runs", 15_000, 20 * time.Second, 1},
		{"while the publisher runs", 80_000, 2 * time.Second, 1},
	} {
		for _, loss := range []Ratio{0, Percent} {
			t.Run(c.name+" "+loss.String(), func(t *testing.T) {
				o := stopping(3, c.messages, c.stop)
				o.Net.Loss, o.Net.UnicastLoss = loss, loss
				r := mustRun(t, o)
				if r.Released != c.released || r.Silent > 0 {
					t.Errorf("%d released, want %d; %d silent", r.Released, c.released, r.Silent)
				}
				if r.Messages+r.GapMessages != 3*uint64(c.messages) {
					t.Errorf("%d messages delivered, %d reported lost, of %d", r.Messages, r.GapMessages, 3*c.messages)
				}
				for cause, n := range r.Gaps {
					if n > 0 && events.Cause(cause) != events.CauseReleased {
						t.Errorf("%d packets lost: %v", n, events.Cause(cause))
					}
				}
				if lost := r.Gaps[events.CauseReleased]; (lost > 0) != (c.released > 0) || (r.ReleasedReported > 0) != (c.released > 0) {
					t.Errorf("%d packets lost, release reported %d times, want some of both, or none", lost, r.ReleasedReported)
				}
				if r.HeldReported < 500*time.Millisecond || r.HeldReported > time.Second {
					t.Errorf("reported to block the publisher for at most %v", r.HeldReported)
				}
			})
		}
	}
}

// Two subscribers are released at once and continue to read slowly: while they process their backlog each is informed
// once of its release, though heartbeats name them alternately. docs/protocol §8.7.
func TestTwoReleasedAtOnce(t *testing.T) {
	for _, loss := range []Ratio{0, Percent} {
		t.Run(loss.String(), func(t *testing.T) {
			o := Simple(3, 4, 60_000)
			p := &o.Publishers[0]
			p.Lives[0].Stop = StopNever
			p.Gap, p.Window = 2*time.Millisecond, 256
			p.Slow = reliable.SlowLimit{Behind: 40, For: 200 * time.Millisecond}
			o.Net.Loss, o.Net.UnicastLoss = loss, loss
			for i := range o.Subscribers[2:] {
				x := &o.Subscribers[2+i]
				x.InPlace, x.Window = false, 100*1472
				stops := []Pause{{At: 50 * time.Millisecond, For: time.Second}}
				for at := 1051 * time.Millisecond; at < 5*time.Second; at += 50 * time.Millisecond {
					stops = append(stops, Pause{At: at, For: 49 * time.Millisecond})
				}
				x.Readers = []Reader{{Block: true, Stops: stops}}
			}
			r := mustRun(t, o)
			if r.Released != 2 || r.ReleasedReported != 2 {
				t.Errorf("%d released, %d reports, want 2 of each", r.Released, r.ReleasedReported)
			}
		})
	}
}

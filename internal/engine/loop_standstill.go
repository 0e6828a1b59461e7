package engine

import (
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// standstill detects that the loop did not run when it should have: the process was stopped, or its host gave it no
// processor time. Slow handlers are the watchdog's. Loop only.
type standstill struct {
	runs  reliable.Running // of the loop and its receivers; each publication has one that follows it
	stood time.Duration    // to be reported
	lost  atomic.Int64     // total nanoseconds in which the loop did not run, for other goroutines
}

// standstillAfter is the shortest standstill that is reported. Publishers release a subscriber after one second of
// silence (docs/protocol §8.4).
const standstillAfter = 2 * time.Second

// ran records that the loop runs at now. handled: it has called a handler since the last record.
func (x *standstill) ran(now reliable.Instant, handled bool) {
	d := x.runs.Runs(now)
	if d > 0 {
		x.lost.Add(int64(d))
	}
	if !handled && d >= standstillAfter {
		x.stood = d
	}
}

// ran returns now less the time in which the loop did not run. Loop only.
func (l *Loop) ran(now reliable.Instant) reliable.Instant { return l.watchdog.stand.runs.Ran(now) }

// reportStandstill reports that the loop did not run. Loop only, outside of handlers.
func (w *watchdog) reportStandstill() {
	d := w.stand.stood
	if d == 0 {
		return
	}
	w.stand.stood, w.l.memberships.of[membership{group: everyGroup}] = 0, outage{until: w.l.now()}
	w.l.emit(&report.StoodStill, events.Event{Kind: events.StoodStill, For: d})
}

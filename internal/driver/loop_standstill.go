package driver

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/logline"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// standstill finds out that the loop did not run when it should have: the process was
// stopped, or its host gave it no processor time. Handlers that take long are not meant,
// the watchdog tells of them. Loop only.
type standstill struct {
	began reliable.Instant // the turn
	due   reliable.Instant // when the loop wanted to run again at the latest; 0: it has not run yet
	stood time.Duration    // that is to be told
}

// standstillAfter is how late the loop has to be. Publishers release a subscriber that says
// nothing for one second (docs/protocol.md §8.4).
const standstillAfter = 2 * time.Second

// begin takes in that a turn begins at now.
func (x *standstill) begin(now reliable.Instant) {
	if late := now.Sub(x.due); x.due != 0 && late >= standstillAfter {
		x.stood = late
	}
	x.began = now
}

// end takes in that a turn has ended at now, whether a handler was called in it, and that the
// next is due by deadline. A turn without handlers takes no time to speak of.
func (x *standstill) end(now, deadline reliable.Instant, handled bool) {
	if d := now.Sub(x.began); !handled && d >= standstillAfter {
		x.stood = d
	}
	x.due = max(now, deadline)
}

// tellStandstill tells that the loop did not run. Loop only, outside of handlers.
func (w *watchdog) tellStandstill() {
	d := w.stand.stood
	if d == 0 {
		return
	}
	w.stand.stood = 0
	logline.StoodStill.Log(w.l.log, "for", d)
	w.l.event(events.Event{Kind: events.StoodStill, For: d})
}

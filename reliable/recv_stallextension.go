package reliable

import "time"

// SetRunning says when the caller runs, which may have several receivers: before there are streams. Without it always.
func (r *Receiver) SetRunning(x *Running) { r.runs = x }

// up and when are those of the caller's account.
func (r *Receiver) up(at Instant) upTime  { return r.runs.up(at) }
func (r *Receiver) when(t upTime) Instant { return r.runs.when(t) }

// NoteStall says that the caller has not read all that had come for a while before now: it did not run when it should
// have (Running), or is so far behind. What publishers sent meanwhile is still to be handled: so that is neither their
// silence nor time in which no repair came. And they may have asked for a sign of life: they get one as often as they
// would ask. docs/protocol §11.3.
func (r *Receiver) NoteStall(now Instant) {
	r.stalledUntil = r.up(now)
	for _, st := range r.list {
		if !st.life.down && now.Sub(st.report.sentAt) >= slowHeartbeat {
			st.report.by(now)
		}
	}
}

// maxExtension is how many times as long as usual something may last because this side is behind, and mostExtension how
// much longer at least: so long may what has come, and what a repair has set free, keep a slow handler busy.
const (
	maxExtension  = 5
	mostExtension = 30 * time.Second
)

// patience is until when something may last that began at since and may for limit: that
// much longer than the end of the last stall, if that is later, as far as a stall may extend it.
func (r *Receiver) patience(since upTime, limit time.Duration) upTime {
	if r.stalledUntil > since {
		since = min(r.stalledUntil, since.add(max((maxExtension-1)*min(limit, time.Hour), mostExtension)))
	}
	return since.add(limit)
}

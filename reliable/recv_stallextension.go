package reliable

import "time"

// NoteStall says that the caller has not read all that had come for a while before now:
// it did not run when it should have, or is so far behind. What publishers sent
// meanwhile is still to be handled: so that is neither their silence nor time in
// which no repair came. And they may have asked for a sign of life: they get one as
// often as they would ask. docs/protocol.md §11.3.
func (r *Receiver) NoteStall(now Instant) {
	r.stalledUntil = now
	for _, st := range r.list {
		if !st.life.down && now.Sub(st.report.sentAt) >= slowHeartbeat {
			st.report.at = min(st.report.at, now)
			r.due = min(r.due, now)
		}
	}
}

// maxExtension is how many times as long as usual something may last because this
// side stood still, and mostExtension how much longer at least: so long may what has
// come, and what a repair has set free, keep a slow handler busy.
const (
	maxExtension  = 5
	mostExtension = 30 * time.Second
)

// extended is from when on something counts that began at since and may last for limit:
// from the end of the last stall, if that is later, as far as a stall may extend it.
func (r *Receiver) extended(since Instant, limit time.Duration) Instant {
	if r.stalledUntil <= since {
		return since
	}
	return min(r.stalledUntil, since.Add(max((maxExtension-1)*min(limit, time.Hour), mostExtension)))
}

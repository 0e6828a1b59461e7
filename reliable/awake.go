package reliable

import "time"

// Awake says that the caller has not read all that had come for a while before now:
// it did not run when it should have, or is so far behind. What publishers sent
// meanwhile is still to be handled: so that is neither their silence nor time in
// which no repair came. And they may have asked for a sign of life: they get one as
// often as they would ask. docs/protocol.md §11.3.
func (r *Receiver) Awake(now Instant) {
	r.awake = now
	for _, st := range r.list {
		if !st.life.down && now.Sub(st.report.sentAt) >= slowBeat {
			st.report.at = min(st.report.at, now)
			r.due = min(r.due, now)
		}
	}
}

// maxExcused is how many times as long as usual something may last because this
// side stood still, and mostExcused how much longer at least: so long may what has
// come, and what a repair has set free, keep a slow handler busy.
const (
	maxExcused  = 5
	mostExcused = 30 * time.Second
)

// excused is when something began that may last for patience, and that began at
// since or when this side was awake again.
func (r *Receiver) excused(since Instant, patience time.Duration) Instant {
	if r.awake <= since {
		return since
	}
	return min(r.awake, since.Add(max((maxExcused-1)*min(patience, time.Hour), mostExcused)))
}

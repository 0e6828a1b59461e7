package reliable

import "time"

// SetRunning sets the record of when the owner runs, which its receivers may share. Call it before there are streams.
// By default the owner always runs.
func (r *Receiver) SetRunning(x *Running) { r.runs = x }

func (r *Receiver) up(at Instant) upTime  { return r.runs.up(at) }
func (r *Receiver) when(t upTime) Instant { return r.runs.when(t) }

// NoteStall records that the owner had not read all arrived packets for a while before now, because it did not run
// (Running) or is too slow. Packets that publishers sent meanwhile are still unread, so this time counts neither as
// silence of a publisher nor as time without a repair. Publishers may also have solicited a status: NoteStall sends one
// at the interval of solicitations. docs/protocol §11.3.
func (r *Receiver) NoteStall(now Instant) {
	r.stalledUntil = r.up(now)
	for _, st := range r.list {
		if !st.life.down && now.Sub(st.report.sentAt) >= slowHeartbeat {
			st.report.by(now)
		}
	}
}

// Local stalls extend a limit to maxExtension times its length at most, or by mostExtension if that is more. Unread
// packets, and packets that a repair has released, may keep a slow handler busy for that long.
const (
	maxExtension  = 5
	mostExtension = 30 * time.Second
)

// expiry is when a limit that began at since expires: limit after since, or after the end of the last stall if that is
// later, as far as a stall may extend it.
func (r *Receiver) expiry(since upTime, limit time.Duration) upTime {
	if r.stalledUntil > since {
		since = min(r.stalledUntil, since.add(max((maxExtension-1)*min(limit, time.Hour), mostExtension)))
	}
	return since.add(limit)
}

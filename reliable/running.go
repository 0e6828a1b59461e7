package reliable

import "time"

// upTime is an Instant minus all earlier time in which the owner did not run. Intervals of silence by which the owner
// judges others are in upTime. docs/protocol §11.3.
type upTime Instant

// neverUp is later than every upTime.
const neverUp upTime = upTime(Never)

func (t upTime) sub(since upTime) time.Duration { return Instant(t).Sub(Instant(since)) }
func (t upTime) add(d time.Duration) upTime     { return upTime(Instant(t).Add(d)) }

// mostLate is how late a running owner may be, on a busy host or because of a slow handler.
const mostLate = 100 * time.Millisecond

// Running records when the owner of Senders or Receivers did not run: its process was stopped, its host suspended, or a
// handler blocked its loop. The owner reports that it runs, and by when it will run again. An owner that never reports
// counts as always running.
type Running struct {
	lost     time.Duration // total time in which it did not run
	until    Instant       // it counts as running until then; 0: it never reported
	from, to Instant       // the last time in which it did not run
}

// Runs reports that the owner runs at now. It returns how long the owner has not run before.
func (x *Running) Runs(now Instant) (lost time.Duration) {
	if x.until != 0 && now > x.until {
		lost = now.Sub(x.until)
		x.lost += lost
		x.from, x.to = x.until, now
	}
	x.until = now.Add(mostLate)
	return lost
}

// Rests reports that the owner, which runs, will run again at until at the latest.
func (x *Running) Rests(until Instant) {
	if until < Never {
		until = until.Add(mostLate)
	}
	x.until = max(x.until, until)
}

// isUp reports whether the owner counts as running at now.
func (x *Running) isUp(now Instant) bool { return x.until == 0 || now <= x.until }

// ranSince reports whether the owner has run without a break since then.
func (x *Running) ranSince(then Instant) bool { return then >= x.to }

// up converts at to upTime. at must not be before the end of the break before the last one.
func (x *Running) up(at Instant) upTime {
	if at < x.to {
		return upTime(min(at, x.from).Add(x.to.Sub(x.from) - x.lost))
	}
	if x.until != 0 {
		at = min(at, x.until)
	}
	return upTime(at.Add(-x.lost))
}

// Ran is up as an Instant, for the owner's own intervals by which it judges others.
func (x *Running) Ran(now Instant) Instant { return Instant(x.up(now)) }

// when is when t will be, if the owner runs until then.
func (x *Running) when(t upTime) Instant { return Instant(t).Add(x.lost) }

// WillHaveRan is when Ran will be ran, if the owner runs until then.
func (x *Running) WillHaveRan(ran Instant) Instant { return x.when(upTime(ran)) }

// age is how long the owner has run since then. It is exact if at most one break has begun since then.
func (x *Running) age(now, then Instant) time.Duration { return x.up(now).sub(x.up(then)) }

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

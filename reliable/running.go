package reliable

import "time"

// upTime is an Instant without all time before it in which this side did not run. Everything
// that judges others by how long they say nothing is counted in it. docs/protocol §11.3.
type upTime Instant

// neverUp is later than every upTime.
const neverUp upTime = upTime(Never)

func (t upTime) sub(since upTime) time.Duration { return Instant(t).Sub(Instant(since)) }
func (t upTime) add(d time.Duration) upTime     { return upTime(Instant(t).Add(d)) }

// mostLate is how late an owner may be that runs: a busy host, a handler that takes its time.
const mostLate = 100 * time.Millisecond

// Running is the one account of the time in which the owner of Senders or Receivers did not run:
// its process was stopped, its host slept, a handler kept its loop. The owner says when it runs,
// and by when it will again. One that says nothing always runs.
type Running struct {
	lost     time.Duration // in which it did not run
	until    Instant       // it runs until then, as far as it has said; 0: it says nothing
	from, to Instant       // when it did not run last
}

// Runs says that the owner runs at now. It returns for how long it did not.
func (x *Running) Runs(now Instant) (lost time.Duration) {
	if x.until != 0 && now > x.until {
		lost = now.Sub(x.until)
		x.lost += lost
		x.from, x.to = x.until, now
	}
	x.until = now.Add(mostLate)
	return lost
}

// Rests says that the owner, which runs, will run again at until at the latest.
func (x *Running) Rests(until Instant) {
	if until < Never {
		until = until.Add(mostLate)
	}
	x.until = max(x.until, until)
}

// isUp reports whether the owner runs at now, as far as it has said.
func (x *Running) isUp(now Instant) bool { return x.until == 0 || now <= x.until }

// ranSince reports whether the owner has run all the time since then.
func (x *Running) ranSince(then Instant) bool { return then >= x.to }

// up is the time at which the owner runs or ran: now, or what was now before the last time that it did not run.
func (x *Running) up(at Instant) upTime {
	if at < x.to {
		return upTime(min(at, x.from).Add(x.to.Sub(x.from) - x.lost))
	}
	if x.until != 0 {
		at = min(at, x.until)
	}
	return upTime(at.Add(-x.lost))
}

// Ran is now without all time in which the owner did not run, for intervals of the owner's that judge others.
func (x *Running) Ran(now Instant) Instant { return Instant(x.up(now)) }

// when is when it will be t, if the owner runs until then.
func (x *Running) when(t upTime) Instant { return Instant(t).Add(x.lost) }

// age is for how long the owner has run since then, which it may be for as long as it likes if it
// has not run more than once since.
func (x *Running) age(now, then Instant) time.Duration { return x.up(now).sub(x.up(then)) }

package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// backoffReporter schedules reports of a persisting condition: after firstReport, and again each time its duration has
// doubled.
type backoffReporter struct{ next time.Duration }

// firstReport is how long a condition lasts before its first report. Shorter ones are normal with flow control and on
// busy hosts, and a subscriber may be silent for a second (reliable.SenderConfig.Silence).
const firstReport = time.Second

// due reports whether a condition that has lasted for d is to be reported now.
func (x *backoffReporter) due(d time.Duration) bool {
	x.next = max(x.next, firstReport)
	if d < x.next {
		return false
	}
	for x.next <= d {
		x.next *= 2
	}
	return true
}

// over ends the condition. It returns whether the condition was reported.
func (x *backoffReporter) over() (reported bool) {
	reported = x.next > firstReport
	x.next = 0
	return reported
}

// watchedTime is how long a timer that fires each watchEvery has observed a condition. The time between two checks does
// not count if it is twice watchEvery or more: the process may have been stopped.
type watchedTime struct {
	ran time.Duration
	at  reliable.Instant // the last check
}

const watchEvery = firstReport / 4

// by returns the observed time up to now.
func (x *watchedTime) by(now reliable.Instant) time.Duration {
	if d := now.Sub(x.at); d < 2*watchEvery {
		return x.ran + d
	}
	return x.ran
}

// look records a check at now, and returns the observed time.
func (x *watchedTime) look(now reliable.Instant) time.Duration {
	x.ran, x.at = x.by(now), now
	return x.ran
}

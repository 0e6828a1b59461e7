package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// backoffReporter decides when to report a persisting condition: after firstReport, again at twice as long each
// time, and its end if it was reported.
type backoffReporter struct{ next time.Duration }

// firstReport is the duration of a condition at its first report. Shorter ones are normal with flow control and on busy
// hosts, and a subscriber may be silent for a second (reliable.SenderConfig.Silence).
const firstReport = time.Second

// due reports whether to report now a condition that has lasted for d.
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

// over ends the condition, and reports whether it was reported.
func (x *backoffReporter) over() (reported bool) {
	reported = x.next > firstReport
	x.next = 0
	return reported
}

// watchedTime is for how long a timer that looks each watchEvery has seen something last. Time between two looks
// that are further apart is left out: the process may have been stopped in it.
type watchedTime struct {
	ran time.Duration
	at  reliable.Instant // up to then
}

const watchEvery = firstReport / 4

// by is that time, up to now.
func (x *watchedTime) by(now reliable.Instant) time.Duration {
	if d := now.Sub(x.at); d < 2*watchEvery {
		return x.ran + d
	}
	return x.ran
}

// look is by, at a look.
func (x *watchedTime) look(now reliable.Instant) time.Duration {
	x.ran, x.at = x.by(now), now
	return x.ran
}

package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// lasting decides when to tell of something that lasts: when it has lasted for
// firstTold, again at twice as long each time, and when it is over, if it was told of.
type lasting struct{ next time.Duration }

// firstTold is how long it lasts before anybody hears of it: what is shorter is the
// ordinary course of flow control and of busy hosts, and a second is as long as a
// subscriber may be silent (reliable.SenderConfig.Silence).
const firstTold = time.Second

// tell reports whether it is to be told of now, when it has lasted for d.
func (x *lasting) tell(d time.Duration) bool {
	x.next = max(x.next, firstTold)
	if d < x.next {
		return false
	}
	for x.next <= d {
		x.next *= 2
	}
	return true
}

// over ends it, and reports whether it was told of.
func (x *lasting) over() (told bool) {
	told = x.next > firstTold
	x.next = 0
	return told
}

// watchedTime is for how long a timer that looks each watchEvery has seen something last. Time between two looks that are further
// apart is left out: the process may have been stopped in it.
type watchedTime struct {
	ran time.Duration
	at  reliable.Instant // up to then
}

const watchEvery = firstTold / 4

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

package driver

import "time"

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

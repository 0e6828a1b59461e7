package engine

import (
	"math"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// open is what was published and has no sequence yet.
//
// Most messages are appended without mu, by the goroutine in the gate, until p.look reads the clock.
type open struct {
	w       *reliable.Writer
	gate    gate             // a goroutine in it may use w; all else is under mu
	granted uint64           // how many it was opened for
	opened  reliable.Instant // when the oldest message in it came; 0: none
	count   uint64           // messages since then, without those that have passed the gate
	looked  uint64           // what count was when somebody looked
	most    uint64           // messages that may pass before it is due, as they came so far
	before  time.Duration    // from message to message, in the last train that waited and while it was sent
	large   bool             // somebody is in the middle of a large message
}

// passed is how many messages have passed the gate. Under mu.
func (o *open) passed() uint64 { return o.granted - o.gate.left() }

// take makes the caller, who holds mu, the only one to use what is open.
func (o *open) take() {
	passed := o.granted - o.gate.shut()
	if o.granted = 0; o.opened != 0 { // else what was appended has been sent by others
		o.count += passed
		o.most -= min(passed, o.most)
	}
}

// came returns how often something came since somebody looked, where the last so many messages came in
// one go, which takes its publisher no longer than one: a batch every 20 µs is no burst. first says that
// nobody has looked since it was opened.
func (o *open) came(messages uint64) (times uint64, first bool) {
	times, first = o.count-o.looked-(messages-1), o.looked == 0
	o.looked = o.count
	return times, first
}

// empty notes that all of it has its sequence.
func (o *open) empty() { o.opened, o.count, o.looked = 0, 0, 0 }

// due reports whether the loop has to send what is open. Under mu.
func (o *open) due(now reliable.Instant, p *Publication) bool {
	return o.opened != 0 && (now.Sub(o.opened) >= p.l.batcher.linger() || p.held())
}

// pace notes that somebody has looked at now: what is open waits for linger. Whose messages come 20 µs apart
// would else look at the first, the fourth and the sixteenth, and keep them for 300 µs. How close they come
// is told by those that are open, and by the last train: what came while that was sent is a burst at the
// beginning of this one, and no pace.
func (o *open) pace(now reliable.Instant, linger time.Duration) {
	o.most = math.MaxUint64
	passed := now.Sub(o.opened)
	if passed >= linger {
		return
	}
	apart := time.Duration(0)
	if o.count > 1 {
		apart = passed / time.Duration(o.count-1)
	}
	if o.count < burstAtMost {
		apart = max(apart, o.before)
	}
	if apart > 0 {
		o.most = max(uint64((linger-passed)/apart), o.count/lookedAgain)
	}
}

// lookedAgain bounds how often one looks at a train that waits: each time so many-th part of what it has is
// added before.
const lookedAgain = 4

// burstAtMost is how many messages of a train may be such a burst: with more of them they tell by themselves how
// close they come.
const burstAtMost = 16

// sent notes that what was open was sent by end.
func (o *open) sent(end reliable.Instant) {
	if n := o.count + o.passed(); o.opened != 0 && n > 0 {
		o.before = end.Sub(o.opened) / time.Duration(n)
	}
}

// give lets messages be appended without mu, if there is nothing else to heed: until
// there are four times as many, or what is open is due. Where trains leave because they are full
// nobody else sends them early, and one look in the middle tells that it goes on so. Where
// several are open somebody looks earlier, to send those that have waited.
func (o *open) give(shut bool, trains openTrains) {
	n := uint64(0)
	if o.count > 0 && !shut && !o.large {
		switch n = 3*o.count - 1; {
		case trains != fullTrains:
		case o.count == 1:
			n = firstUnseen
		default:
			n = mostGranted
		}
		if n = min(n, o.most, mostGranted); trains == severalTrains {
			n = min(n, mostUnseen)
		}
	}
	o.granted = n
	o.gate.open(n)
}

const (
	// mostGranted is without a bound.
	mostGranted = math.MaxUint64 >> 1
	// mostUnseen is how many messages are appended between two looks at the clock at most,
	// where several trains are open.
	mostUnseen = 63
	// firstUnseen is how many behind the first of a train, where trains leave because they are full.
	firstUnseen = 63
)

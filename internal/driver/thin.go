package driver

import (
	"math/bits"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// What strangers can make a loop say, as often as they like, is thinned in the log.

// thin lets through a few lines at once, and then so many a second. Loop only.
type thin struct {
	at     reliable.Instant // room was made last
	room   int
	unsaid uint64 // lines since one was let through
}

const (
	linesAtOnce = 64
	lineEvery   = time.Second
)

// say reports whether a line may be said at now, and how many have not been since
// the last one.
func (t *thin) say(now reliable.Instant) (unsaid uint64, ok bool) {
	switch n := int(now.Sub(t.at) / lineEvery); {
	case t.at == 0, n >= linesAtOnce:
		t.at, t.room = now, linesAtOnce
	case n > 0:
		t.at, t.room = t.at.Add(time.Duration(n)*lineEvery), min(t.room+n, linesAtOnce)
	}
	if t.room == 0 {
		t.unsaid++
		return 0, false
	}
	t.room--
	unsaid, t.unsaid = t.unsaid, 0
	return unsaid, true
}

// note logs what became of a publisher.
func (l *Loop) note(msg string, args ...any) {
	unsaid, ok := l.notes.say(l.now())
	if !ok {
		return
	}
	if unsaid > 0 {
		args = append(args, "unsaid", unsaid)
	}
	l.log.Info(msg, args...)
}

// warn logs what became of a subscriber.
func (l *Loop) warn(msg string, args ...any) {
	if unsaid, ok := l.notes.say(l.now()); ok {
		if unsaid > 0 {
			args = append(args, "unsaid", unsaid)
		}
		l.log.Warn(msg, args...)
	}
}

// doubled reports whether a count that was old has come to a power of two: to be
// told at the 1st, 2nd, 4th, 8th ….
func doubled(old, n uint64) bool { return bits.Len64(n) > bits.Len64(old) }

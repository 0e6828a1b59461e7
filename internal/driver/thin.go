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
	most   int              // lines at once; 0: linesAtOnce
	room   int
	unsaid uint64 // lines since one was let through
}

// leftOut names, in a line, how many like it were left out before it.
const leftOut = "lines_left_out"

const (
	linesAtOnce = 64
	lineEvery   = time.Second
)

// say reports whether a line may be said at now, and how many have not been since
// the last one.
func (t *thin) say(now reliable.Instant) (unsaid uint64, ok bool) {
	most := t.most
	if most == 0 {
		most = linesAtOnce
	}
	switch n := int(now.Sub(t.at) / lineEvery); {
	case t.at == 0, n >= most:
		t.at, t.room = now, most
	case n > 0:
		t.at, t.room = t.at.Add(time.Duration(n)*lineEvery), min(t.room+n, most)
	}
	if t.room == 0 {
		t.unsaid++
		return 0, false
	}
	t.room--
	unsaid, t.unsaid = t.unsaid, 0
	return unsaid, true
}

// withLeftOut adds to a line how many like it were left out.
func withLeftOut(args []any, left uint64) []any {
	if left > 0 {
		args = append(args, leftOut, left)
	}
	return args
}

// note logs what became of a publisher.
func (l *Loop) note(msg string, args ...any) {
	unsaid, ok := l.notes.say(l.now())
	if !ok {
		return
	}
	l.log.Info(msg, withLeftOut(args, unsaid)...)
}

// warn logs what became of a subscriber.
func (l *Loop) warn(msg string, args ...any) {
	if unsaid, ok := l.notes.say(l.now()); ok {
		l.log.Warn(msg, withLeftOut(args, unsaid)...)
	}
}

// doubled reports whether a count that was old has come to a power of two: to be
// told at the 1st, 2nd, 4th, 8th ….
func doubled(old, n uint64) bool { return bits.Len64(n) > bits.Len64(old) }

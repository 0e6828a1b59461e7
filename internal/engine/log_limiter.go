package engine

import (
	"math/bits"
	"time"

	"golang.org/x/time/rate"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/reliable"
)

// logLimiter limits the lines that other hosts can make a loop log: several at once, then one per second. Loop only.
type logLimiter struct {
	tokens  *rate.Limiter
	dropped uint64 // lines suppressed since the last one
}

const (
	linesAtOnce = 64
	lineEvery   = time.Second
)

func newLogLimiter(atOnce int) logLimiter {
	return logLimiter{tokens: rate.NewLimiter(rate.Every(lineEvery), atOnce)}
}

// allow reports whether a line may be logged at now, and how many were suppressed since the last one.
func (l *logLimiter) allow(now reliable.Instant) (left uint64, ok bool) {
	if !l.tokens.AllowN(time.Unix(0, int64(now)), 1) {
		l.dropped++
		return 0, false
	}
	left, l.dropped = l.dropped, 0
	return left, true
}

// withLeftOut adds the number of suppressed lines to the attributes of a line.
func withLeftOut(args []any, left uint64) []any {
	if left > 0 {
		args = append(args, report.LeftOut, left)
	}
	return args
}

// say logs a line about a peer, unless there were too many.
func (j *journal) say(line *report.Line, args ...any) {
	if left, ok := j.notes.allow(j.clock.now()); ok {
		line.Log(j.log, withLeftOut(args, left)...)
	}
}

// Doubled reports whether a count, formerly old, has reached a power of two: for reports at the 1st, 2nd, 4th, 8th …
// time.
func Doubled(old, n uint64) bool { return bits.Len64(n) > bits.Len64(old) }

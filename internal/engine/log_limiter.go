package engine

import (
	"math/bits"
	"time"

	"golang.org/x/time/rate"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/reliable"
)

// logLimiter limits how much strangers can make a loop log: a few lines at once, and then one a second. Loop only.
type logLimiter struct {
	tokens  *rate.Limiter
	dropped uint64 // lines since one was allowed
}

const (
	linesAtOnce = 64
	lineEvery   = time.Second
)

func newLogLimiter(atOnce int) logLimiter {
	return logLimiter{tokens: rate.NewLimiter(rate.Every(lineEvery), atOnce)}
}

// allow reports whether a line may be logged at now, and how many have been left out since the last one.
func (l *logLimiter) allow(now reliable.Instant) (left uint64, ok bool) {
	if !l.tokens.AllowN(time.Unix(0, int64(now)), 1) {
		l.dropped++
		return 0, false
	}
	left, l.dropped = l.dropped, 0
	return left, true
}

// withLeftOut adds to a line how many like it were left out.
func withLeftOut(args []any, left uint64) []any {
	if left > 0 {
		args = append(args, report.LeftOut, left)
	}
	return args
}

// say writes a line about a peer, if there were not too many.
func (j *journal) say(line *report.Line, args ...any) {
	if left, ok := j.notes.allow(j.clock.now()); ok {
		line.Log(j.log, withLeftOut(args, left)...)
	}
}

// doubled reports whether a count that was old has reached a power of two: reports come at the 1st, 2nd, 4th, 8th ….
func doubled(old, n uint64) bool { return bits.Len64(n) > bits.Len64(old) }

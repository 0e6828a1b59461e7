package engine

import (
	"log/slog"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// clock is the loop's, monotonic.
type clock struct{ start time.Time }

func newClock() clock { return clock{time.Now().Add(-time.Second)} }

// now reads the clock. It is never zero.
func (c clock) now() reliable.Instant { return reliable.Instant(time.Since(c.start)) }

// journal decides what a bus says of its peers and groups: in its log once, and not once a group, and of strangers no
// more than a few lines at once and then one a second. Loop only, but for log.
type journal struct {
	log   *slog.Logger
	clock clock

	notes          logLimiter // on publishers
	refused        logLimiter // on publishers that are not heard: for subscriptions, too
	failed         logLimiter // on groups that cannot be joined
	losing         lossNotes
	presences      presences             // of publishers
	repeats        repeats               // of peers
	namesakes      uint64                // other buses with our id
	duplicates     map[instancePair]bool // that were reported: of maxDuplicates at most
	memberships    memberships
	unreplied      unreplied
	sealedReported bool         // that sealed packets come, and there are no keys
	stuck          *Publication // the first of those that can send nothing, which was said; nil: there is none
}

func newJournal(log *slog.Logger, c clock) journal {
	return journal{
		log: log, clock: c, duplicates: make(map[instancePair]bool),
		notes: newLogLimiter(linesAtOnce), refused: newLogLimiter(linesAtOnce), failed: newLogLimiter(failuresAtOnce),
		losing: newLossNotes(), memberships: memberships{away: make(map[membership]bool)},
	}
}

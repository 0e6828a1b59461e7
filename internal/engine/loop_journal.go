package engine

import "log/slog"

// journal decides what a bus logs about its peers and groups: once per peer and not once per group, and about other
// hosts several lines at once, then one per second. Loop only, except log.
type journal struct {
	log   *slog.Logger
	clock clock

	notes          logLimiter // about publishers
	refused        logLimiter // about refused publishers, also those that subscriptions refuse
	failed         logLimiter // about groups that cannot be joined
	losing         lossNotes
	presences      presences             // of publishers
	repeats        repeats               // of peers
	namesakes      uint64                // times that another bus with our id came up
	duplicates     map[instancePair]bool // pairs that were reported, at most maxDuplicates
	memberships    memberships
	unreplied      unreplied
	sealedReported bool // it was reported that sealed packets arrive and there are no keys
}

func newJournal(log *slog.Logger, c clock) journal {
	return journal{
		log: log, clock: c, duplicates: make(map[instancePair]bool),
		notes: newLogLimiter(linesAtOnce), refused: newLogLimiter(linesAtOnce), failed: newLogLimiter(failuresAtOnce),
		losing: newLossNotes(), memberships: memberships{of: make(map[membership]outage)},
	}
}

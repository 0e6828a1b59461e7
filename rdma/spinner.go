package rdma

import "time"

// Spinner is an optional interface of a CQ: a caller that polls in a loop, to see a completion at once,
// lets the provider do the loop, and saves the cost of each call. Nothing is allocated.
type Spinner interface {
	// PollFor is Poll that repeats, without yielding the processor, until there is something or limit
	// has passed. A provider polls for 50 µs at most; with a limit of 0 or less it is Poll.
	PollFor(batch []WorkCompletion, limit time.Duration) (int, error)
}

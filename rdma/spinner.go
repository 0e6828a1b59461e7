package rdma

import "time"

// Spinner is what a CQ may also implement: who polls in a loop, to hear of a
// completion as soon as it comes, lets the provider do the looking, and saves
// what each call costs. Nothing is allocated.
type Spinner interface {
	// PollFor is Poll that goes on looking, without giving the processor up,
	// until there is something or limit has passed. A provider looks for 50 µs at
	// most; with a limit of 0 or less it is Poll.
	PollFor(batch []WorkCompletion, limit time.Duration) (int, error)
}

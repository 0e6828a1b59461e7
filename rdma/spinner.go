package rdma

import "time"

// Spinner is an optional interface of a CQ that can poll in a loop: this costs less than a caller's loop of calls to
// Poll. It does not allocate.
type Spinner interface {
	// PollFor repeats Poll, without yielding the processor, until there is a completion or limit has passed. It polls for
	// 50 µs at most; with a limit of 0 or less it is Poll.
	PollFor(batch []WorkCompletion, limit time.Duration) (int, error)
}

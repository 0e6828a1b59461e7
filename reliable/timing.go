package reliable

import "time"

// Clock is a wall clock that measures delivery times. docs/protocol §5.11.
type Clock struct {
	ID  uint64        // equal for clocks that agree; 0: nothing is timed
	Now func() uint64 // nanoseconds since 1970
}

const (
	// timingAhead bounds how far ahead of its transmission a packet is selected for timing.
	timingAhead = activeHeartbeat / 2
	// timingsKept is the maximum number of a stream's timed packets that are still to be delivered.
	timingsKept = 16
	// maxDelivery is the longest time that counts as a delivery time.
	maxDelivery = time.Hour
)

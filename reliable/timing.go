package reliable

import "time"

// Clock is a wall clock, by which the times of deliveries are measured. docs/protocol §5.11.
type Clock struct {
	ID  uint64        // those of clocks that agree are equal; 0: nothing is timed
	Now func() uint64 // nanoseconds since 1970
}

const (
	// timingAhead bounds how far ahead a packet is named that will be timed.
	timingAhead = activeHeartbeat / 2
	// timingsKept bounds the packets of a stream that were timed and are still to be delivered.
	timingsKept = 16
	// maxDelivery is the longest time that counts as that of a delivery.
	maxDelivery = time.Hour
)

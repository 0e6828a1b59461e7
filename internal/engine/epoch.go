package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// epochRandomBits is the number of random low bits of an epoch. They replace the clock's bits below a millisecond.
const epochRandomBits = 20

// newEpoch returns the epoch of a bus that starts at now: the number of this instance of its publisher id. Epochs must
// differ, their order does not matter. The clock alone does not suffice: two instances may start in one tick, cloned
// machines wake up with the same clock, and a clock may be set back. docs/protocol §3.1.
func newEpoch(now time.Time, random uint64) events.ID {
	const mask = 1<<epochRandomBits - 1
	return events.ID(uint64(now.UnixNano())&^mask | random>>(64-epochRandomBits))
}

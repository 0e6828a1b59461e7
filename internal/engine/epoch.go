package engine

import "time"

// epochRandomBits are the low bits of an epoch that are random: the clock's below a millisecond.
const epochRandomBits = 20

// newEpoch makes the epoch of a bus that starts at now: the number of this instance of its publisher id. Only that no
// two instances have the same one matters, not their order. The clock alone is not enough for that: two may start in
// one tick of it, cloned machines wake up with the same one, and it may be set back. docs/protocol §3.1.
func newEpoch(now time.Time, random uint64) uint64 {
	const mask = 1<<epochRandomBits - 1
	return uint64(now.UnixNano())&^mask | random>>(64-epochRandomBits)
}

package bias

import "sync/atomic"

// Flag is a lock that nobody waits for: who finds it taken does something else. To leave it costs no locked instruction where
// stores are ordered anyway. The zero value is free.
type Flag struct{ taken uint32 }

// Take takes the flag. It reports false when somebody has it.
func (f *Flag) Take() bool { return atomic.CompareAndSwapUint32(&f.taken, 0, 1) }

// Leave leaves the flag, after a Take that succeeded. What was done before is visible to who takes it next.
func (f *Flag) Leave() { store(&f.taken, 0) }

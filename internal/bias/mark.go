package bias

import "sync/atomic"

// Mark is a number that one goroutine, its owner, writes often, and others read now and
// then: to write it costs a plain store where stores are ordered anyway.
type Mark struct{ v uint32 }

// Set writes the number. Its caller owns the mark. What it did before is visible to
// who reads the number.
func (m *Mark) Set(v uint32) { store(&m.v, v) }

// Get reads the number that was written last, as far as that has become visible.
func (m *Mark) Get() uint32 { return atomic.LoadUint32(&m.v) }

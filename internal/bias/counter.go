package bias

import "sync/atomic"

// Counter is a number that one goroutine at a time writes, under a lock of its own,
// and any may read: what it reads may be a little old. Where stores are ordered, to
// write costs no locked instruction.
type Counter struct{ n uint64 }

// Get is for who may write.
func (c *Counter) Get() uint64 { return c.n }

// Set writes v.
func (c *Counter) Set(v uint64) { store64(&c.n, v) }

// Load is for anybody.
func (c *Counter) Load() uint64 { return atomic.LoadUint64(&c.n) }

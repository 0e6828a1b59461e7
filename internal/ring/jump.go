package ring

// Overtaken reports whether the producer has overtaken the cursor since its last Jump, or since it was attached.
func (c *Cursor) Overtaken() bool { return c.passed.Load() }

// Jump moves the cursor to position to, if it is before that: the items in between count as skipped. Only its reader
// may call it, without a leased item.
func (c *Cursor) Jump(to uint64) {
	c.passed.Store(false)
	for {
		s := c.state.Load()
		if s&stateMask != 0 {
			panic("ring: jump of a cursor that has leased an item")
		}
		if s>>stateBits >= to || c.state.CompareAndSwap(s, to<<stateBits) {
			return
		}
	}
}

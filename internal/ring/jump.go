package ring

// Overtaken reports whether the producer has overtaken the cursor since its last Jump, or since it was attached.
func (c *Cursor) Overtaken() bool { return c.passed.Load() }

// Jump moves the cursor on to position to, if it stands before that: the items between
// count as skipped. Its reader calls it, with nothing leased.
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

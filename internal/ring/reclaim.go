package ring

// The producer frees items that all cursors have read, and overtakes cursors for which it does not have to wait.

// Room reports whether an item and a note can be appended, after freeing items that all cursors have read, and
// overtaking cursors that are not pinned. Loop only.
func (l *Log) Room() bool {
	head := l.head.Load()
	if head-l.tail < l.capacity-1 {
		return true
	}
	l.Reclaim()
	if head-l.tail < l.capacity-1 {
		return true
	}
	// Overtake by an eighth of the ring, so that a slow cursor is moved rarely and gets one long gap instead of many short
	// ones.
	l.Overtake(int(l.capacity/8) + 1)
	return head-l.tail < l.capacity-1
}

// Overtake moves cursors that are not pinned forward until n more items are free, or as many as pinned cursors allow.
// Loop only.
func (l *Log) Overtake(n int) {
	target := min(l.tail+uint64(n), l.head.Load())
	l.dropParked()
	for _, c := range l.active {
		if c.block {
			target = min(target, c.position())
		}
	}
	if target <= l.tail {
		return
	}
	for _, c := range l.active {
		if !c.block && !c.Parked() {
			l.push(c, target)
		}
	}
	l.Reclaim()
}

// push moves c at least to target. The packet that c has leased keeps its slot until c releases it.
func (l *Log) push(c *Cursor, target uint64) {
	if c.skipTo.Load() < target {
		c.skipTo.Store(target)
	}
	if c.position() < target {
		c.passed.Store(true)
	}
	for {
		s := c.state.Load()
		pos := s >> stateBits
		switch {
		case pos >= target || s&stateMask == reading:
			return // the reader is copying the item, and keeps it this time
		case s&stateMask == leased:
			l.keepAlive(c, pos)
			return
		case c.state.CompareAndSwap(s, target<<stateBits):
			return
		}
	}
}

// Reclaim frees the slots of all items that every cursor has passed. Loop only.
func (l *Log) Reclaim() {
	lowest := l.head.Load()
	l.dropParked()
	for _, c := range l.active {
		lowest = min(lowest, l.lowestNeeded(c))
	}
	t := l.table.Load()
	for ; l.tail < lowest; l.tail++ {
		switch it := t.at(l.tail); {
		case it.note:
			*t.note(l.tail) = nil
		case !l.isHeld(l.tail):
			l.slots.Release(it.slot)
		}
	}
	if len(l.heldPackets) > 0 {
		l.freeReturned()
	}
}

// lowestNeeded returns the lowest item that c still needs, without its leased packet if c was overtaken.
func (l *Log) lowestNeeded(c *Cursor) uint64 {
	s := c.state.Load()
	pos := s >> stateBits
	skip := c.skipTo.Load()
	if s&stateMask == reading || skip <= pos {
		return pos
	}
	if s&stateMask == leased {
		l.keepAlive(c, pos)
	}
	return skip
}

// Abandon moves all cursors to the end of a log after End, so that the memory of its slots can be freed. It returns
// false while a reader still uses a packet. Loop only.
func (l *Log) Abandon() bool {
	l.Reclaim()
	if l.end.Load() == nil || len(l.heldPackets) > 0 {
		return false
	}
	for _, c := range l.cursors.List() {
		if c.state.Load()&stateMask != 0 {
			return false
		}
	}
	head := l.head.Load()
	for _, c := range l.cursors.List() {
		// As in push: a reader that leases an item meanwhile sees skipTo and releases it.
		c.skipTo.Store(head)
		s := c.state.Load()
		if s&stateMask != 0 || !c.state.CompareAndSwap(s, head<<stateBits) {
			return false
		}
	}
	return true
}

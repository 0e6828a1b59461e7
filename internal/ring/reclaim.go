package ring

// How the producer gets memory back from cursors: items that all have read, and items it takes from
// cursors that it need not wait for.

// Room reports whether an item can be appended, after giving back what all
// cursors have read and overtaking the cursors that are not pinned. Loop only.
func (l *Log) Room() bool {
	head := l.head.Load()
	if head-l.tail < l.capacity {
		return true
	}
	l.Reclaim()
	if head-l.tail < l.capacity {
		return true
	}
	// Overtake by an eighth of the ring at once, so that a slow cursor is
	// pushed seldom and sees one long gap, not many short ones.
	return l.Overtake(int(l.capacity/8) + 1)
}

// Overtake moves the cursors that are not pinned forward until n more items are free, or as many as pinned cursors
// allow. It reports whether any became free. Loop only.
func (l *Log) Overtake(n int) bool {
	target := min(l.tail+uint64(n), l.head.Load())
	l.dropParked()
	for _, c := range l.active {
		if c.block {
			target = min(target, c.position())
		}
	}
	if target <= l.tail {
		return false
	}
	for _, c := range l.active {
		if !c.block && !c.Parked() {
			l.push(c, target)
		}
	}
	before := l.tail
	l.Reclaim()
	return l.tail > before
}

// push moves c to target at least. The packet that c is reading right now keeps its slot until c releases it.
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
			return // a reader is between two instructions: it holds its item this time
		case s&stateMask == leased:
			l.keepAlive(c, pos)
			return
		case c.state.CompareAndSwap(s, target<<stateBits):
			return
		}
	}
}

// Reclaim gives back the slots of all items that every cursor has passed. Loop only.
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

// lowestNeeded is the lowest item that c still needs, its leased packet aside if c was overtaken.
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

// Abandon moves all cursors to the end of a log that has one, so that the memory of its slots can be
// freed. It returns false while a reader still uses a packet. Loop only.
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
		// As in push: a reader that comes in between sees skipTo and releases.
		c.skipTo.Store(head)
		s := c.state.Load()
		if s&stateMask != 0 || !c.state.CompareAndSwap(s, head<<stateBits) {
			return false
		}
	}
	return true
}

package ring

// A heldPacket is a packet that is still leased by a cursor that no longer counts, because it was overtaken or
// detached. It keeps its slot, because its user may still read it.
type heldPacket struct {
	c        *Cursor // nil: Expire no longer waits for it
	pos      uint64
	slot     uint32
	detached bool  // c is detached, and may never return the packet
	until    int64 // if detached: the time until which Expire waits; 0: not set yet
}

// keepAlive holds the packet at pos, which c has leased.
func (l *Log) keepAlive(c *Cursor, pos uint64) {
	it := l.table.Load().at(pos)
	if pos < l.tail || it.note {
		return
	}
	for _, z := range l.heldPackets {
		if z.c == c && z.pos == pos {
			return
		}
	}
	l.heldPackets = append(l.heldPackets, heldPacket{c: c, pos: pos, slot: it.slot})
}

// detached records that c is detached.
func (l *Log) detached(c *Cursor) {
	for i := range l.heldPackets {
		if l.heldPackets[i].c == c {
			l.heldPackets[i].detached = true
		}
	}
}

// Held returns an upper bound of the number of slots that are held although no counting cursor needs them. Loop only.
func (l *Log) Held() int { return len(l.heldPackets) }

// Expire frees the slots that detached cursors have released. Of the others it frees those held for keep since the
// first Expire, and the oldest if there are more than limit. now is the time of the caller's clock. Loop only.
func (l *Log) Expire(now, keep int64, limit int) {
	if len(l.heldPackets) == 0 {
		return
	}
	detached := 0
	for i := len(l.heldPackets) - 1; i >= 0; i-- { // the latest first
		z := &l.heldPackets[i]
		if !z.detached || z.c == nil {
			continue
		}
		if z.until == 0 {
			z.until = now + keep
		}
		if detached++; detached > limit || now >= z.until {
			z.c = nil
		}
	}
	l.Reclaim()
}

func (l *Log) isHeld(pos uint64) bool {
	for _, z := range l.heldPackets {
		if z.pos == pos {
			return true
		}
	}
	return false
}

// freeReturned frees the slots of packets that no reader holds.
func (l *Log) freeReturned() {
	for i := 0; i < len(l.heldPackets); {
		z := l.heldPackets[i]
		if z.c != nil && z.c.state.Load() == z.pos<<stateBits|leased || z.pos >= l.tail {
			i++
			continue
		}
		l.heldPackets = append(l.heldPackets[:i], l.heldPackets[i+1:]...)
		if !l.isHeld(z.pos) {
			l.slots.Release(z.slot)
		}
	}
}

package ring

// A cursor that has read all items that it needs is parked: it no longer counts, and the producer continues without it
// until the next item that it needs. So many cursors that need few items cost the producer and their readers little.
//
//	           Park                 Park, if no item arrived
//	counting ─────────► parking ───────────────────────────────► parked
//	    ▲                  │                                       │
//	    └──────────────────┴───────────────────────────────────────┘
//	                Wake, before an item that it needs
//
// Only the producer makes a parked cursor count again, at the head. A parking cursor still counts: items that it may
// have to read are kept. The producer raises wanted before it reads the mode, and the reader reads wanted after it has
// changed the mode, so one of them sees the other's change.
const (
	counting = iota
	parking
	parked
)

// Parked reports whether the cursor is parked.
func (c *Cursor) Parked() bool { return c.mode.Load() == parked }

// Park parks the cursor if it has read all items that it needs. It returns false if there are others. Only its reader
// may call it, without a leased item.
func (c *Cursor) Park() bool {
	if c.Parked() {
		return true
	}
	c.mode.Store(parking)
	if max(c.position(), c.skipTo.Load()) < c.wanted.Load() || c.log.end.Load() != nil && !c.ended.Load() {
		c.mode.Store(counting)
		return false
	}
	if from, pos := max(c.next, c.resumed.Load()), c.Position(); pos > from {
		c.carried += pos - from // the producer has overtaken it by all its unread items
		c.next = pos
	}
	return c.mode.CompareAndSwap(parking, parked)
}

// OnWake makes Wake call f. Loop only.
func (c *Cursor) OnWake(f func()) { c.onWake = f }

// Wake reports that the cursor needs the next appended item. Loop only.
func (c *Cursor) Wake() {
	l := c.log
	head := l.head.Load()
	c.wanted.Store(head + 1)
	for counts := false; !counts; {
		switch c.mode.Load() {
		case counting:
			counts = true
		case parking:
			counts = c.mode.CompareAndSwap(parking, counting) // otherwise the reader has changed the mode
		case parked:
			c.skipTo.Store(head)
			c.state.Store(head << stateBits)
			c.resumed.Store(head)
			l.list(c)
			c.mode.Store(counting)
			counts = true
		}
	}
	if c.onWake != nil {
		c.onWake()
	}
}

// wakeAll wakes all cursors.
func (l *Log) wakeAll() {
	for _, c := range l.cursors.List() {
		c.Wake()
	}
}

func (l *Log) list(c *Cursor) {
	if !c.listed {
		c.listed = true
		l.active = append(l.active, c)
	}
}

// dropParked removes parked cursors from active.
func (l *Log) dropParked() {
	for i := 0; i < len(l.active); {
		c := l.active[i]
		if !c.Parked() {
			i++
			continue
		}
		n := len(l.active) - 1
		l.active[i], l.active[n] = l.active[n], nil
		l.active = l.active[:n]
		c.listed = false
	}
}

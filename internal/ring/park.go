package ring

// A cursor that has read all that it wants is parked: it does not count any more, and the producer
// continues without it until the next item that it wants. So any number of cursors that want little
// cost the producer and their readers little.
//
//	           Park                   Park, if nothing came
//	counting ─────────► parking ───────────────────────────────► parked
//	    ▲                  │                                       │
//	    └──────────────────┴───────────────────────────────────────┘
//	                Wake, before an item that it wants
//
// Only the producer makes a parked cursor count again, at the head. One that is parking counts: items
// that it may still have to read are kept. The producer raises wanted before it reads the mode, and the
// reader reads wanted after it has changed the mode, so one of them sees the other.
const (
	counting = iota
	parking
	parked
)

// Parked reports whether the cursor is parked.
func (c *Cursor) Parked() bool { return c.mode.Load() == parked }

// Park parks the cursor if it has read all that it wants. It reports false when there
// is something to be read. Its reader calls it, with nothing leased.
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
		c.carried += pos - from // it was overtaken by all that it had still to read
		c.next = pos
	}
	return c.mode.CompareAndSwap(parking, parked)
}

// OnWake makes Wake call f. Loop only.
func (c *Cursor) OnWake(f func()) { c.onWake = f }

// Wake says that the cursor wants the item that is appended next. Loop only.
func (c *Cursor) Wake() {
	l := c.log
	head := l.head.Load()
	c.wanted.Store(head + 1)
	for counts := false; !counts; {
		switch c.mode.Load() {
		case counting:
			counts = true
		case parking:
			counts = c.mode.CompareAndSwap(parking, counting) // else the reader has decided
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

// wakeAll is for what all cursors read.
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

// dropParked forgets the cursors that are parked.
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

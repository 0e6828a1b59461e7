package ring

// A cursor that has read all that it wants rests: it does not count any more, and the
// producer goes on without it until something comes that it wants. So cursors that want
// little cost the producer and their readers little, however many there are.
//
//	           Rest                   Rest, if nothing came
//	counting ─────────► trying ───────────────────────────────► resting
//	    ▲                  │                                       │
//	    └──────────────────┴───────────────────────────────────────┘
//	                Rouse, before an item that it wants
//
// Only the producer makes a resting cursor count again, at the head. One that is trying
// counts: what it may still have to read is kept. The producer raises wanted before it
// looks at the mode, and the reader looks at wanted after it has changed the mode, so one
// of them sees the other.
const (
	counting = iota
	trying
	resting
)

// Resting reports whether the cursor rests.
func (c *Cursor) Resting() bool { return c.mode.Load() == resting }

// Rest lets the cursor rest if it has read all that it wants. It reports false when there
// is something to be read. Its reader calls it, with nothing leased.
func (c *Cursor) Rest() bool {
	if c.Resting() {
		return true
	}
	c.mode.Store(trying)
	if max(c.position(), c.skipTo.Load()) < c.wanted.Load() || c.log.end.Load() != nil && !c.ended.Load() {
		c.mode.Store(counting)
		return false
	}
	return c.mode.CompareAndSwap(trying, resting)
}

// OnRouse makes Rouse call f. Loop only.
func (c *Cursor) OnRouse(f func()) { c.roused = f }

// Rouse says that the cursor wants the item that is appended next. Loop only.
func (c *Cursor) Rouse() {
	l := c.log
	head := l.head.Load()
	c.wanted.Store(head + 1)
	for counts := false; !counts; {
		switch c.mode.Load() {
		case counting:
			counts = true
		case trying:
			counts = c.mode.CompareAndSwap(trying, counting) // else the reader has decided
		case resting:
			c.skipTo.Store(head)
			c.state.Store(head << stateBits)
			c.resumed.Store(head)
			l.list(c)
			c.mode.Store(counting)
			counts = true
		}
	}
	if c.roused != nil {
		c.roused()
	}
}

// rouseAll is for what all cursors read.
func (l *Log) rouseAll() {
	for _, c := range l.cursors {
		c.Rouse()
	}
}

func (l *Log) list(c *Cursor) {
	if !c.listed {
		c.listed = true
		l.active = append(l.active, c)
	}
}

// dismiss forgets the cursors that rest.
func (l *Log) dismiss() {
	for i := 0; i < len(l.active); {
		c := l.active[i]
		if !c.Resting() {
			i++
			continue
		}
		n := len(l.active) - 1
		l.active[i], l.active[n] = l.active[n], nil
		l.active = l.active[:n]
		c.listed = false
	}
}

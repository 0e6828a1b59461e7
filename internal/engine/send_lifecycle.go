package engine

// lifecycle says whether a publication takes messages. Under its lock.
//
//	            end                 close
//	┌──────┐ ─────────► ┌────────┐ ───────► ┌────────┐
//	│ open │            │ ending │          │ closed │
//	└──────┘ ─────────► └────────┘          └────────┘
//	 ▲    │   close ──────────────────────────►  ▲
//	 │    │ fail                                 │
//	 │    ▼                                      │
//	┌────────┐  end, close                       │
//	│ failed │ ──────────────────────────────────┘
//	└────────┘
//
// Failed: the group could not be joined; the next caller that wants the publication has it joined again (reopen).
type lifecycle struct {
	ending bool  // the bus is closing: nothing new is taken
	closed error // why nothing can be published any more; nil: it can
	failed bool
	// unsent is how many messages were taken and never sent, once that was counted after the end.
	unsent  uint64
	counted bool
}

// shut reports whether nothing new is taken.
func (x *lifecycle) shut() bool { return x.ending || x.closed != nil }

// end begins the end: what was taken is still sent.
func (x *lifecycle) end() { x.ending = true }

// close ends all, because of err unless something else has before.
func (x *lifecycle) close(err error) {
	if x.closed == nil {
		x.closed = err
	}
	x.failed = false
}

// fail closes until it is opened again: the group cannot be joined.
func (x *lifecycle) fail(err error) {
	first := x.closed == nil
	x.close(err)
	x.failed = first && !x.ending
}

// reopens reports whether reopen would help.
func (x *lifecycle) reopens() bool { return x.failed && !x.ending }

// reopen opens what has failed.
func (x *lifecycle) reopen() { x.closed, x.failed = nil, false }

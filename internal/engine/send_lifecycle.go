package engine

// lifecycle says whether a publication accepts messages. Under its lock.
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
// Failed: the group could not be joined. The next call that needs the publication joins it again (reopen).
type lifecycle struct {
	ending bool  // the bus is closing: nothing new is accepted
	closed error // why nothing can be published; nil: it can
	failed bool
	// unsent is how many messages were accepted and never sent. It is set after the end, with counted.
	unsent  uint64
	counted bool
}

// shut reports whether nothing new is accepted.
func (x *lifecycle) shut() bool { return x.ending || x.closed != nil }

// end stops accepting messages. Accepted ones are still sent.
func (x *lifecycle) end() { x.ending = true }

// close closes permanently, because of err unless it was closed before.
func (x *lifecycle) close(err error) {
	if x.closed == nil {
		x.closed = err
	}
	x.failed = false
}

// fail closes until reopen: the group cannot be joined.
func (x *lifecycle) fail(err error) {
	first := x.closed == nil
	x.close(err)
	x.failed = first && !x.ending
}

// reopens reports whether the publication can be reopened.
func (x *lifecycle) reopens() bool { return x.failed && !x.ending }

// reopen opens a failed publication.
func (x *lifecycle) reopen() { x.closed, x.failed = nil, false }

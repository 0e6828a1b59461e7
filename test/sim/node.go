package sim

import (
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// node is what publishers and subscribers share: a clock of their own, and one timer that keeps exactly to the deadline
// that the core has named last, so that a deadline too late shows as a stall.
type node struct {
	sim      *sim
	index    int16
	offset   reliable.Instant // of its clock
	late     time.Duration    // timers fire late by up to this
	deadline reliable.Instant // by the simulation's clock
	armed    reliable.Instant // when the timer's event comes
	same     int              // events in a row at which nothing but a deadline already past was named
	lastWake reliable.Instant
	frozen   reliable.Instant // until then; 0: it runs
}

// now is the node's own time.
func (n *node) now() reliable.Instant { return n.sim.now + n.offset }

// sleep sets the timer to d, by the node's clock. Calling again and again for
// a time that is past would hang a real process at full load: that is an error.
func (n *node) sleep(d reliable.Instant) {
	if d != reliable.Never {
		d -= n.offset
	}
	if d <= n.sim.now {
		if n.lastWake == n.sim.now {
			n.same++
		} else {
			n.same, n.lastWake = 0, n.sim.now
		}
		if n.same > 1000 {
			n.sim.fail("node %d spins: its deadline %v is past", n.index, d)
		}
		d = n.sim.now
	}
	n.deadline = d
	n.arm()
}

func (n *node) arm() {
	if n.deadline == reliable.Never {
		return
	}
	at := n.deadline
	if n.late > 0 {
		at = at.Add(n.sim.net.upTo(n.late))
	}
	if at < n.armed {
		n.armed = at
		n.sim.q.push(event{at: at, kind: timer, node: n.index})
	}
}

// woken reports whether the timer event e is the node's and its deadline come.
func (n *node) woken(e event) bool {
	if e.at != n.armed {
		return false
	}
	n.armed = reliable.Never
	if n.sim.now < n.deadline {
		n.arm()
		return false
	}
	return true
}

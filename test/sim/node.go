package sim

import (
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// node is the common part of publishers and subscribers: a clock of its own, and a single timer set
// to the last deadline of the core, so that a late deadline shows as a stall.
type node struct {
	sim      *sim
	index    int16
	offset   reliable.Instant // of its clock
	late     time.Duration    // maximum delay of timers
	deadline reliable.Instant // by the simulation's clock
	armed    reliable.Instant // when the timer fires
	same     int              // number of successive events that left only a deadline in the past
	lastWake reliable.Instant
	frozen   reliable.Instant // frozen until then; 0: running
}

// now returns the node's own time.
func (n *node) now() reliable.Instant { return n.sim.now + n.offset }

// sleep sets the timer to d, by the node's clock. Repeated deadlines in the past are an error: they
// would make a real process loop without end.
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
			n.sim.fail("node %d never sleeps: its deadline %v stays in the past", n.index, d)
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

// woken reports whether e is the node's current timer event and its deadline has passed.
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

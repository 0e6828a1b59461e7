package sim

import "slices"

// freeze stops the processes of f.
func (s *sim) freeze(f Freeze) { s.setFrozen(f, true) }

// thaw continues them: subscribers have what arrived in the meantime.
func (s *sim) thaw(f Freeze) { s.setFrozen(f, false) }

func (s *sim) setFrozen(f Freeze, on bool) {
	until := s.now.Add(f.For)
	if !on {
		until = 0
	}
	for i, p := range s.publishers {
		if f.Publishers&(1<<i) != 0 {
			if p.frozen = until; !on {
				p.heldSince = p.heldSince.Add(f.For)
			}
		}
	}
	for i, x := range s.subscribers {
		if f.Subscribers&(1<<i) != 0 {
			if x.frozen, x.paused = until, on; !on {
				x.wake()
			}
		}
	}
}

// frozen reports whether e is for a process that is frozen: then it happens when the process
// continues. Packets for a subscriber still reach its receive buffer.
func (s *sim) frozen(e event) bool {
	if !slices.Contains([]eventKind{alarm, poll, timer, read}, e.kind) {
		return false
	}
	n := s.node(int(e.node))
	if n.frozen == 0 || e.kind == timer && e.at != n.armed {
		return false
	}
	if e.at = n.frozen; e.kind == timer {
		n.armed = e.at
	}
	s.q.push(e)
	return true
}

func (s *sim) node(i int) *node {
	if i < len(s.publishers) {
		return &s.publishers[i].node
	}
	return &s.subscribers[i-len(s.publishers)].node
}

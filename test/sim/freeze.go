package sim

// freeze stops the processes of f for a while.
func (s *sim) freeze(f Freeze) {
	for i, p := range s.publishers {
		if f.Publishers&(1<<i) != 0 {
			p.freeze(f.For)
			p.heldSince = p.heldSince.Add(f.For)
		}
	}
	for i, x := range s.subscribers {
		if f.Subscribers&(1<<i) != 0 {
			x.freeze(f.For)
		}
	}
}

// frozen reports whether e is for a process that is frozen: then it happens when the process
// continues. Packets still reach its receive queue.
func (s *sim) frozen(e event) bool {
	if e.kind != alarm && e.kind != timer {
		return false
	}
	p := s.process(int(e.node))
	if p.frozen == 0 || e.kind == timer && e.at != p.armed {
		return false
	}
	if e.at = p.frozen; e.kind == timer {
		p.armed = e.at
	}
	s.q.push(e)
	return true
}

func (s *sim) process(i int) *process {
	if i < len(s.publishers) {
		return &s.publishers[i].process
	}
	return &s.subscribers[i-len(s.publishers)].process
}

package reliable

import "slices"

// formerlyReleased are members that were released and then fell silent: a process that was
// stopped, say. They count for nothing, but heartbeats name them for a while, as those that are
// still there, so that one that comes back knows why it has a gap. docs/protocol §8.12.
type formerlyReleased struct{ list []*Member } // the oldest first

// remember notes a member that is removed because it is silent.
func (x *formerlyReleased) remember(m *Member) {
	if !m.away() {
		return
	}
	if len(x.list) >= formerKept {
		x.list = slices.Delete(x.list, 0, 1)
	}
	x.list = append(x.list, m)
}

// find returns one, or nil.
func (x *formerlyReleased) find(id uint64) *Member {
	for _, m := range x.list {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// comesBack lets a member begin where it stood, if it is one of them: released.
func (x *formerlyReleased) comesBack(m *Member) {
	if old := x.find(m.ID); old != nil {
		m.membership = old.membership
		x.list = slices.DeleteFunc(x.list, func(m *Member) bool { return m == old })
	}
}

// forget drops those that have been silent for too long.
func (x *formerlyReleased) forget(now upTime) {
	x.list = slices.DeleteFunc(x.list, func(m *Member) bool { return now.sub(m.asked.since) >= formerNamed })
}

// toBeNamed are the members that a heartbeat may have to name.
func (m *members) toBeNamed() []*Member {
	if len(m.former.list) == 0 {
		return m.list
	}
	return slices.Concat(m.list, m.former.list)
}

// explainGone has a heartbeat name a receiver that asks for what is gone, if it was released,
// ahead of the notice: what it takes for lost by then has the right cause.
func (s *Sender) explainGone(now Instant, receiver uint64) {
	m := s.members.byID[receiver]
	if m == nil {
		m = s.members.former.find(receiver)
	}
	if m != nil && m.away() && (m.namedAt == 0 || now.Sub(m.namedAt) >= slowHeartbeat) {
		s.stall.next = m
		s.heartbeat.by(now)
	}
}

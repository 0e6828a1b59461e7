package reliable

import "slices"

// formerlyReleased holds members that were released and then fell silent, such as stopped processes. They do not count,
// but heartbeats name them for a while, so that a receiver that returns knows the cause of its gap. docs/protocol
// §8.12.
type formerlyReleased struct{ list []*Member } // the oldest first

// remember adds a member that is removed as silent, if it was released.
func (x *formerlyReleased) remember(m *Member) {
	if !m.away() {
		return
	}
	if len(x.list) >= formerKept {
		x.list = slices.Delete(x.list, 0, 1)
	}
	x.list = append(x.list, m)
}

// find returns the former member with that id, or nil.
func (x *formerlyReleased) find(id uint64) *Member {
	for _, m := range x.list {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// comesBack makes a former member that returns a released one again.
func (x *formerlyReleased) comesBack(m *Member) {
	if old := x.find(m.ID); old != nil {
		m.membership = old.membership
		x.list = slices.DeleteFunc(x.list, func(m *Member) bool { return m == old })
	}
}

// forget drops the members that have been silent for too long.
func (x *formerlyReleased) forget(now upTime) {
	x.list = slices.DeleteFunc(x.list, func(m *Member) bool { return now.sub(m.asked.since) >= formerNamed })
}

// toBeNamed returns the members that a heartbeat may have to name.
func (m *members) toBeNamed() []*Member {
	if len(m.former.list) == 0 {
		return m.list
	}
	return slices.Concat(m.list, m.former.list)
}

// explainGone makes a heartbeat name a released receiver that requests packets which are gone, before the gone is sent:
// so the receiver reports the right cause of the gap.
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

package reliable

import "time"

// SlowLimit says how far a subscriber may stay behind, and for how long, before the
// publisher lets it go: it is not waited for until it is at most half as far behind.
// Without Behind there is no limit. docs/protocol.md §8.9.
type SlowLimit struct {
	Behind uint64        // packets that it misses or has not read
	For    time.Duration // without ever being less behind
}

// lagging follows how long a member has been behind by more than the limit.
type lagging struct{ since Instant } // 0: it is not

// note takes in how far behind the member is at now, and reports whether it has been too
// far for too long.
func (x *lagging) note(now Instant, behind uint64, limit SlowLimit) bool {
	switch {
	case limit.Behind == 0 || behind <= limit.Behind:
		x.since = 0
	case x.since == 0:
		x.since = now
	}
	return x.since != 0 && now.Sub(x.since) >= limit.For
}

// back reports whether a member that was released for being slow counts again.
func (l SlowLimit) back(behind uint64) bool { return behind <= l.Behind/2 }

// releaseSlow releases members that have been too far behind for too long.
func (s *Sender) releaseSlow(now Instant) {
	if s.cfg.Slow.Behind == 0 {
		return
	}
	any := false
	for _, m := range s.members.list {
		if !s.stall.waits(m) || !m.lagging.note(now, m.behind(s.win.next), s.cfg.Slow) {
			continue
		}
		d := now.Sub(m.lagging.since)
		m.lagging = lagging{}
		m.tooSlow(d)
		s.stall.gone = append(s.stall.gone, m.hold(d, s.win.next))
		s.stats.ReceiversReleased++
		any = true
	}
	if any {
		s.flow.recompute(s)
		s.relieve()
	}
}

package reliable

import "time"

// SlowLimit says how far a subscriber may stay behind, and for how long, before the publisher lets it go: it is not
// waited for until it is at most half as far behind. One that holds the publisher up for so long is let go, too, if
// windows are smaller than the limit. Without Behind there is no limit. docs/protocol §8.9.
type SlowLimit struct {
	Behind uint64        // packets that it misses or has not read
	For    time.Duration // without ever being less behind
}

// lagging follows how long a member has been behind by more than the limit.
type lagging struct{ since upTime } // 0: it is not

// note takes in how far behind the member is at now, and for how long it has held the publisher up, and reports
// whether it has been too far behind for too long, and for how long. A member that holds the publisher up is as far
// behind as it can be, however few packets that are.
func (x *lagging) note(now upTime, behind uint64, held time.Duration, limit SlowLimit) (d time.Duration, tooLong bool) {
	switch {
	case limit.Behind == 0 || behind <= limit.Behind:
		x.since = 0
	case x.since == 0:
		x.since = now
	}
	if x.since != 0 {
		d = now.sub(x.since)
	}
	if d = max(d, held); limit.Behind == 0 || x.since == 0 && held == 0 {
		return 0, false
	}
	return d, d >= limit.For
}

// back reports whether a member that was released for being slow counts again.
func (l SlowLimit) back(behind uint64) bool { return behind <= l.Behind/2 }

// releaseSlow releases members that have been too far behind for too long.
func (s *Sender) releaseSlow(now upTime) {
	if s.cfg.Slow.Behind == 0 {
		return
	}
	any := false
	for _, m := range s.members.list {
		if !s.stall.waits(m) {
			continue
		}
		held := time.Duration(0)
		if m.isHolding() { // but not while what it has room for is still being sent
			held = min(m.heldFor(now), now.sub(s.up(s.heartbeat.lastData)))
		}
		d, tooLong := m.lagging.note(now, m.behind(s.win.next), held, s.cfg.Slow)
		if !tooLong {
			continue
		}
		m.lagging = lagging{}
		m.tooSlow(d)
		s.stall.gone = append(s.stall.gone, m.hold(d, s.win.next))
		s.stats.ReceiversReleased++
		any = true
	}
	if any {
		s.flow.recompute(s.cfg.Flow, s.members.list)
		s.relieve()
	}
}

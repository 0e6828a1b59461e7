package reliable

import "time"

// SlowLimit says how far, and for how long, a member may stay behind before it is released, until it is at most half as
// far behind. A member that blocks the publisher for that long is released, too, since windows may be smaller than
// the limit. With Behind 0 there is no limit. docs/protocol §8.9.
type SlowLimit struct {
	Behind uint64        // packets that it has not received or not read
	For    time.Duration // how long it may be further behind without interruption
}

// lagging tracks since when a member has been behind by more than the limit.
type lagging struct{ since upTime } // 0: it is not

// note updates x with how far behind the member is now, and how long it has blocked the publisher. It reports whether
// the member has been too far behind for too long, and for how long. A member that blocks the publisher is as far
// behind as possible, however few packets that is.
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

// back reports whether a member that was released as slow is close enough to count again.
func (l SlowLimit) back(behind uint64) bool { return behind <= l.Behind/2 }

// slowMembers releases members that have been too far behind for too long, while the transport took packets.
func (s *Sender) slowMembers(at Instant) (gone []*Member) {
	if s.cfg.Slow.Behind == 0 {
		return nil
	}
	now, down := s.up(at), s.out.down(at)
	for _, m := range s.members.list {
		if !s.stall.waits(m) {
			continue
		}
		held := time.Duration(0)
		if m.isHolding() { // not while packets for which it has room are still being sent
			held = min(m.heldFor(now), now.sub(s.up(s.heartbeat.lastData)))
		}
		d, tooLong := m.lagging.note(now, m.behind(s.win.next), held, s.cfg.Slow)
		if tooLong || down {
			m.lagging = lagging{}
		}
		if tooLong && !down {
			m.tooSlow(d)
			gone = append(gone, m)
		}
	}
	return gone
}

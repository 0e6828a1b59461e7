package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Trailing is a member that asks for more than there is room for beside the data: its link, or its host,
// takes less than is sent.
type Trailing struct {
	events.Hold
	Received float64 // packets a second that it has
	Sent     float64 // new packets a second
}

// trailing finds it, once in trailingEvery.
type trailing struct {
	since upTime
	sent  uint64 // Sender.win.sent then
	short bool   // repairs had to wait for their budget
	found *Trailing
}

const (
	trailingEvery = time.Second
	trailingShare = 8 // it asks for one packet of so many at least
)

// memberPath is what a publisher knows of the way to a member.
type memberPath struct {
	rtt   rttEstimator
	asked int    // packets, since trailing.since
	end   uint64 // the highest sequence that it has requested, plus one
	next  uint64
	lost  uint32

	fetched uint64 // the lowest sequence of history that it has requested, plus one; 0: none
}

// look ends a period, if it is over.
func (x *trailing) look(list []*Member, w *sendWindow, now upTime) {
	d := now.sub(x.since)
	if d < trailingEvery {
		return
	}
	sent := w.sent - x.sent
	var last *Member
	for _, m := range list {
		if !m.joining && m.path.asked > 0 && (last == nil || m.path.asked > last.path.asked) {
			last = m
		}
	}
	x.found = nil
	if x.short && sent > 0 && last != nil && uint64(last.path.asked) > sent/trailingShare {
		got := last.Next - min(last.Next, last.path.next+uint64(last.Lost-last.path.lost))
		x.found = &Trailing{last.hold(d, w.next), float64(got) / d.Seconds(), float64(sent) / d.Seconds()}
	}
	for _, m := range list {
		m.path.asked, m.path.next, m.path.lost = 0, m.Next, m.Lost
	}
	*x = trailing{since: now, sent: w.sent, found: x.found}
}

// TakeTrailing returns the member that asked for most in the last second, once, if it asked for more than
// there was room for.
func (s *Sender) TakeTrailing(now Instant) (t Trailing, ok bool) {
	x := &s.members.trailing
	x.look(s.members.list, &s.win, s.up(now))
	if x.found == nil {
		return Trailing{}, false
	}
	t, x.found = *x.found, nil
	return t, true
}

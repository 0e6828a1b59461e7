package reliable

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Trailing is a member that requests more repairs than the budget beside the data allows: its link or host cannot
// sustain the data rate.
type Trailing struct {
	events.Hold
	Received float64 // packets a second that arrived
	Sent     float64 // new packets a second
}

// trailing searches for such a member once per trailingEvery.
type trailing struct {
	since upTime
	sent  uint64 // Sender.win.sent at since
	short bool   // repairs waited for their budget
	found *Trailing
}

const (
	trailingEvery = time.Second
	trailingShare = 8 // it requests one packet of so many at least, and lacks as many
)

// memberPath is what a publisher knows of the path to a member.
type memberPath struct {
	rtt   rttEstimator
	known bool   // it was a member at trailing.since
	asked int    // packets requested since trailing.since
	end   uint64 // highest sequence requested, plus one
	next  uint64
	lost  uint32

	fetched uint64 // lowest sequence of history requested, plus one; 0: none
}

// endPeriod ends the period if it is over. A member that joined within it, or lacks few packets at its end, is catching
// up.
func (x *trailing) endPeriod(list []*Member, w *sendWindow, now upTime) {
	d := now.sub(x.since)
	if d < trailingEvery {
		return
	}
	sent := w.sent - x.sent
	var last *Member
	for _, m := range list {
		if !m.joining && m.path.known && m.path.asked > 0 && (last == nil || m.path.asked > last.path.asked) {
			last = m
		}
	}
	x.found = nil
	if x.short && sent > 0 && last != nil && uint64(last.path.asked) > sent/trailingShare {
		got := last.Next - min(last.Next, last.path.next+uint64(last.Lost-last.path.lost))
		if max(sent-min(sent, got), last.behind(w.next)) > sent/trailingShare {
			x.found = &Trailing{last.hold(d, w.next), float64(got) / d.Seconds(), float64(sent) / d.Seconds()}
		}
	}
	for _, m := range list {
		m.path.known, m.path.asked, m.path.next, m.path.lost = true, 0, m.Next, m.Lost
	}
	*x = trailing{since: now, sent: w.sent, found: x.found}
}

// TakeTrailing returns, once per period, the member that requested most in the last period, if its requests exceeded
// the budget.
func (s *Sender) TakeTrailing(now Instant) (t Trailing, ok bool) {
	x := &s.members.trailing
	x.endPeriod(s.members.list, &s.win, s.up(now))
	if x.found == nil {
		return Trailing{}, false
	}
	t, x.found = *x.found, nil
	return t, true
}

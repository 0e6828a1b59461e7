package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Groups without subscriptions are left: the fabric need not deliver their packets here.

// leaveAfter is how long a group is kept without a subscription. A program that closes one
// and makes the next does not join anew each time, which takes a round trip to a subnet
// manager or an IGMP querier; and publishers have heard by then that we go.
const leaveAfter = 5 * time.Second

// unusedGroup decides when a group is left. Loop only.
type unusedGroup struct{ leaveAt reliable.Instant } // Never: it is in use

// due reports whether to leave at now; used says whether the group is still needed, and keep for how long an unused
// group is kept.
func (u *unusedGroup) due(now reliable.Instant, used bool, keep time.Duration) bool {
	switch {
	case used:
		u.leaveAt = reliable.Never
	case u.leaveAt == reliable.Never:
		u.leaveAt = now.Add(keep)
	}
	return now >= u.leaveAt
}

// used reports whether the group has a subscription, or a reader of earlier packets. A message that the reader of a
// closed subscription holds stays valid without the group, because the memory of windows is not used again; if the
// next subscription continues in it, it is kept.
func (g *group) used() bool {
	return g.wanting() || g.patterns.ahead != nil || g.subs.Len() > 0 || len(g.leaving) > 0 ||
		len(g.logs) > 0 && g.owner == nil || g.r.Detached()
}

// leave ends the membership. What is counted stays, and goes on when the group is joined
// again; publishers are followed anew then.
func (g *group) leave() {
	l := g.l
	for _, st := range g.r.Streams() {
		l.inbox.legs.forget(st)
		if !st.Down() && g.alone(st.Instance) {
			l.publisherLeft(g, st)
		}
	}
	g.r.Leave()
	g.joined, g.inline = false, false
	g.end()
	left, err := l.leave(g.index)
	if err != nil {
		report.LeaveFailed.Log(l.log, "group", g.address, "err", err)
	}
	if !left || err != nil {
		return // others need it
	}
	report.GroupLeft.Log(l.log, "group", g.address)
}

// publisherLeft notes that a publisher is not followed any more in one of its groups.
func (j *journal) publisherLeft(g *group, st *reliable.Stream) {
	j.presences.went(st.Instance, events.CauseNone)
	report.PublisherLeft.Log(j.log, publisherArgs(g, st)...)
}

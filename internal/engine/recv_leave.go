package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Leaving groups that have no subscriptions, so that the network need not deliver their packets here.

// leaveAfter is how long a group is kept without a subscription. A program that closes one subscription and opens
// another does not join each time, which takes a round trip to a subnet manager or an IGMP querier. Meanwhile
// publishers get the farewells.
const leaveAfter = 5 * time.Second

// unusedGroup decides when a group is left. Loop only.
type unusedGroup struct{ leaveAt reliable.Instant } // Never: in use

// due reports whether to leave at now. used says whether the group is needed, keep how long to keep an unused one.
func (u *unusedGroup) due(now reliable.Instant, used bool, keep time.Duration) bool {
	switch {
	case used:
		u.leaveAt = reliable.Never
	case u.leaveAt == reliable.Never:
		u.leaveAt = now.Add(keep)
	}
	return now >= u.leaveAt
}

// used reports whether the group has a subscription, or a reader of earlier packets. After the group is left, a message
// that the reader of a closed subscription holds stays valid, because window memory is not reused; a log is kept if the
// next subscription continues with it.
func (g *group) used() bool {
	return g.wanting() || g.patterns.ahead != nil || g.subs.Len() > 0 || len(g.leaving) > 0 ||
		len(g.logs) > 0 && g.owner == nil || g.r.Detached()
}

// leave leaves the group. Its counters are kept, and continue when the group is joined again; publishers are then
// followed anew.
func (g *group) leave() {
	l := g.l
	for _, st := range g.r.Streams() {
		l.inbox.legs.forget(st)
		if !st.Down() && g.alone(st.Instance) {
			l.publisherLeft(st.Origin(), g.address)
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
		return // still needed by others
	}
	report.GroupLeft.Log(l.log, "group", g.address)
}

// publisherLeft records that a publisher is not followed any more in one of its groups.
func (j *journal) publisherLeft(from *reliable.Origin, group string) {
	j.presences.went(from.Instance, events.CauseNone)
	report.PublisherLeft.Log(j.log, publisherArgs(from, group)...)
}

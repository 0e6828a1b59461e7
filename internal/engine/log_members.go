package engine

import (
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/transport"
)

// What the log says of memberships: once a bus where all groups have the same fate.

// memberships are those that were lost and are not back.
type memberships struct {
	away map[membership]bool
	most int // of them, since there were none
}

// lost notes that one was lost. It reports whether it is the first.
func (x *memberships) lost(m membership) (first bool) {
	if first = len(x.away) == 0; first {
		x.most = 0
	}
	x.away[m] = true
	x.most = max(x.most, len(x.away))
	return first
}

// back notes that one is back. It reports whether it was the last.
func (x *memberships) back(m membership) (last bool) {
	delete(x.away, m)
	return len(x.away) == 0
}

// memberLost logs a lost membership: if the interface is gone all groups lose theirs, and only the first is logged.
func (j *journal) memberLost(e *transport.Event, group string) {
	line := &report.GroupLostToo
	if j.memberships.lost(membership{e.Group, e.Role}) {
		line = &report.GroupLost
	}
	line.Log(j.log, "group", group, "role", e.Role, "err", e.Err)
}

// memberBack logs a membership that is back; the last one reports all of them.
func (j *journal) memberBack(m membership, group string) {
	if !j.memberships.back(m) {
		report.GroupBack.Log(j.log, "group", group, "role", m.role)
		return
	}
	report.GroupsBack.Log(j.log, "memberships", j.memberships.most, "latest", group)
}

// failuresAtOnce is how many groups that cannot be joined each have their line.
const failuresAtOnce = 4

// joinFailed logs that a group cannot be joined.
func (j *journal) joinFailed(e *transport.Event, group string) {
	if lines, ok := j.failed.allow(j.clock.now()); ok {
		report.JoinFailed.Log(j.log, withLeftOut([]any{"group", group, "role", e.Role, "err", e.Err}, lines)...)
	}
}

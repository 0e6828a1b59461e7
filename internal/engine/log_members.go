package engine

import (
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/transport"
)

// When a bus loses the memberships of all groups together, the log has one line.

// memberships are the lost memberships that are not back yet.
type memberships struct {
	away map[membership]bool
	most int // the largest number of them since there were none
}

// lost records a lost membership. It reports whether it is the only one.
func (x *memberships) lost(m membership) (first bool) {
	if first = len(x.away) == 0; first {
		x.most = 0
	}
	x.away[m] = true
	x.most = max(x.most, len(x.away))
	return first
}

// back records that a membership is back. It reports whether none is lost any more.
func (x *memberships) back(m membership) (last bool) {
	delete(x.away, m)
	return len(x.away) == 0
}

// memberLost logs a lost membership. With the interface all of them are lost: only the first line is a warning.
func (j *journal) memberLost(e *transport.Event, group string) {
	line := &report.GroupLostToo
	if j.memberships.lost(membership{e.Group, e.Role}) {
		line = &report.GroupLost
	}
	line.Log(j.log, "group", group, "role", e.Role, "err", e.Err)
}

// memberBack logs a membership that is back. After the last one it logs how many there were.
func (j *journal) memberBack(m membership, group string) {
	if !j.memberships.back(m) {
		report.GroupBack.Log(j.log, "group", group, "role", m.role)
		return
	}
	report.GroupsBack.Log(j.log, "memberships", j.memberships.most, "latest", group)
}

// failuresAtOnce is how many groups that cannot be joined have a line each.
const failuresAtOnce = 4

// joinFailed logs that a group cannot be joined.
func (j *journal) joinFailed(e *transport.Event, group string) {
	if lines, ok := j.failed.allow(j.clock.now()); ok {
		report.JoinFailed.Log(j.log, withLeftOut([]any{"group", group, "role", e.Role, "err", e.Err}, lines)...)
	}
}

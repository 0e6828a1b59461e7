package driver

import "github.com/fanfaremq/fanfare/transport"

// What the log says of memberships: once a bus where all groups have the same fate.

// memberLost logs that a membership is lost: where the interface is gone all groups
// lose theirs, and the first tells.
func (l *Loop) memberLost(e *transport.Event, group string) {
	level := l.log.Debug
	if len(l.away) == 0 {
		level, l.awayMost = l.log.Warn, 0
	}
	level("membership of a group was lost, joining again", "group", group, "role", e.Role, "err", e.Err)
	l.away[membership{e.Group, e.Role}] = true
	l.awayMost = max(l.awayMost, len(l.away))
}

// memberBack logs that a membership is back; the last one tells of all.
func (l *Loop) memberBack(m membership, group string) {
	delete(l.away, m)
	if len(l.away) > 0 {
		l.log.Debug("membership of a group is back", "group", group, "role", m.role)
		return
	}
	l.log.Info("all memberships of groups are back", "memberships", l.awayMost, "latest", group)
}

// failuresAtOnce is how many groups that cannot be joined each have their line.
const failuresAtOnce = 4

// joinFailed logs that a group cannot be joined.
func (l *Loop) joinFailed(e *transport.Event, group string) {
	if lines, ok := l.failed.allow(l.now()); ok {
		l.log.Error("joining a group failed", withLeftOut([]any{"group", group, "role", e.Role, "err", e.Err}, lines)...)
	}
}

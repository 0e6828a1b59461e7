package engine

import (
	"fmt"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// When a bus loses the memberships of all groups together, the log has one line.

// memberships are the lost memberships: until when each was away (reliable.Never: it still is), and why.
type memberships struct {
	of         map[membership]outage
	away, most int // how many are away now, and at most at a time since none was
}

type outage struct {
	until reliable.Instant
	err   error
}

// everyGroup stands for all groups: the process was cut off from them while it did not run.
const everyGroup = -1

// lost records a lost membership. It reports whether it is the only one.
func (x *memberships) lost(m membership, err error) (first bool) {
	if first = x.away == 0; first {
		x.most = 0
	}
	if x.of[m].until != reliable.Never {
		x.away++
	}
	x.of[m] = outage{reliable.Never, err}
	x.most = max(x.most, x.away)
	return first
}

// cutOff returns why this bus itself was cut off from group m at the time since or later, or nil if it was not.
func (x *memberships) cutOff(m membership, since reliable.Instant) error {
	if o := x.of[m]; o.until > since {
		return fmt.Errorf("this bus was cut off: %w", o.err)
	}
	return nil
}

// memberLost logs a lost membership. With the interface all of them are lost: only the first line is a warning.
func (j *journal) memberLost(e *transport.Event, group string) {
	write := report.GroupLost.Debug
	if j.memberships.lost(membership{e.Group, e.Role}, e.Err) {
		write = report.GroupLost.Log
	}
	write(j.log, "group", group, "role", e.Role, "err", e.Err)
}

// memberBack logs a membership that is back. After the last one it logs how many there were.
func (j *journal) memberBack(m membership, group string) {
	x := &j.memberships
	x.of[m] = outage{j.clock.now(), x.of[m].err}
	if x.away--; x.away > 0 {
		report.GroupBack.Log(j.log, "group", group, "role", m.role)
		return
	}
	report.GroupsBack.Log(j.log, "memberships", x.most, "latest", group)
}

// failuresAtOnce is how many groups that cannot be joined have a line each.
const failuresAtOnce = 4

// joinFailed logs that a group cannot be joined.
func (j *journal) joinFailed(e *transport.Event, group string) {
	if lines, ok := j.failed.allow(j.clock.now()); ok {
		report.JoinFailed.Log(j.log, withLeftOut([]any{"group", group, "role", e.Role, "err", e.Err}, lines)...)
	}
}

package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// What happens to a peer happens in all groups of a bus. The log has it once per peer: the first group's line at its
// level, the others for debugging.

// presences are the publishers that the log has called up, or down with a cause. Loop only.
type presences struct {
	of map[events.Instance]*presence
}

type presence struct {
	groups int // number of groups in which it is up
	up     bool
	cause  events.Cause // why it is down
}

// came records that a publisher is up in one more group. It reports whether to log that it is up.
func (p *presences) came(of events.Instance) (say bool) {
	x := p.of[of]
	if x == nil {
		x = &presence{}
		if p.of == nil {
			p.of = make(map[events.Instance]*presence)
		}
		p.of[of] = x
	}
	say = !x.up
	x.groups++
	x.up = true
	return say
}

// went records that a publisher is down in one of its groups. It reports whether to log that, with this cause.
func (p *presences) went(of events.Instance, cause events.Cause) (say bool) {
	x := p.of[of]
	if x == nil {
		return false // down a second time: after a lost instance its successor has come up
	}
	say = x.up || x.cause != cause
	x.up, x.cause = false, cause
	if x.groups--; x.groups == 0 {
		delete(p.of, of)
	}
	return say
}

// repeats suppresses lines that the log has recently had for the same peer. Loop only.
type repeats struct{ at map[remark]reliable.Instant }

type remark struct {
	peer events.ID
	line *report.Line
}

const (
	// sameRemark is how long a line about a peer is not repeated: within some seconds all groups of a bus report the
	// same.
	sameRemark = 10 * time.Second
	// remarksKept bounds the memory that other hosts can make this bus use.
	remarksKept = 1024
)

// say records a line, and reports whether it was not logged recently.
func (r *repeats) say(now reliable.Instant, peer events.ID, line *report.Line) bool {
	key := remark{peer, line}
	if at, ok := r.at[key]; ok && now.Sub(at) < sameRemark {
		return false
	}
	if r.at == nil || len(r.at) >= remarksKept {
		r.at = make(map[remark]reliable.Instant)
	}
	r.at[key] = now
	return true
}

// sayOf logs a line of a peer, 0 for this bus, once for all groups.
func (j *journal) sayOf(peer events.ID, line *report.Line, args ...any) {
	if j.repeats.say(j.clock.now(), peer, line) {
		j.say(line, args...)
	} else {
		line.Debug(j.log, args...)
	}
}

// publisherCame logs that a publisher is up.
func (j *journal) publisherCame(from *reliable.Origin, group string) {
	args, line, lost := publisherArgs(from, group), &report.PublisherUp, remark{from.Publisher, &report.PublisherLost}
	if _, reported := j.repeats.at[lost]; reported {
		delete(j.repeats.at, lost)
		line = &report.PublisherBack
	}
	if j.presences.came(from.Instance) {
		j.say(line, args...)
	} else {
		report.PublisherUp.Debug(j.log, args...)
	}
}

// publisherWent logs that a publisher is down. A lost one is a warning. own is why this bus itself was cut off from it.
func (j *journal) publisherWent(from *reliable.Origin, group string, cause events.Cause, own error) {
	args := publisherArgs(from, group)
	switch say := j.presences.went(from.Instance, cause); {
	case !say:
		report.PublisherDown.Debug(j.log, append(args, "cause", cause)...)
	case cause == events.CausePublisherLost:
		line := &report.PublisherLost
		j.repeats.say(j.clock.now(), from.Publisher, line) // for publisherCame
		if own != nil {
			line, args = &report.PublisherCutOff, append(args, "err", own)
		}
		j.say(line, args...)
	case cause == events.CauseNone:
		j.say(&report.PublisherEnded, args...)
	default:
		j.say(&report.PublisherDown, append(args, "cause", cause)...)
	}
}

// publisherArgs returns the attributes that name a publisher, with the group that reports it first.
func publisherArgs(from *reliable.Origin, group string) []any {
	args := []any{"publisher", from.Publisher}
	if from.Name != "" {
		args = append(args, "name", from.Name)
	}
	return append(args, "epoch", from.Epoch, "group", group)
}

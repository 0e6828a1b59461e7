package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// A bus has many groups, and what happens to a peer happens in all of them. The log
// says it once a peer: the first group's line at its level, the others' for debugging.

// presences knows of which publishers the log has said that they are up, or why they are down. Loop only.
type presences struct {
	of map[reliable.Instance]*presence
}

type presence struct {
	groups int // in which it is up
	up     bool
	cause  events.Cause // of being down
}

// came notes that a publisher is up in one more group. It reports whether the log has not said so.
func (p *presences) came(of reliable.Instance) (say bool) {
	x := p.of[of]
	if x == nil {
		x = &presence{}
		if p.of == nil {
			p.of = make(map[reliable.Instance]*presence)
		}
		p.of[of] = x
	}
	say = !x.up
	x.groups++
	x.up = true
	return say
}

// went notes that a publisher is down in one of its groups. It reports whether the log has not said so, for that cause.
func (p *presences) went(of reliable.Instance, cause events.Cause) (say bool) {
	x := p.of[of]
	if x == nil {
		return false // down a second time: an old instance that was lost has been restarted
	}
	say = x.up || x.cause != cause
	x.up, x.cause = false, cause
	if x.groups--; x.groups == 0 {
		delete(p.of, of)
	}
	return say
}

// repeats suppresses a line of the log that has said the same of the same peer lately. Loop only.
type repeats struct{ at map[remark]reliable.Instant }

type remark struct {
	peer uint64
	what events.Kind
}

const (
	// sameRemark is how long one of the same peer is not said again: the groups of a
	// bus find within some seconds what one of them has found.
	sameRemark = 10 * time.Second
	// remarksKept bounds what strangers can make us remember.
	remarksKept = 1024
)

// say reports whether it was not said lately.
func (r *repeats) say(now reliable.Instant, peer uint64, what events.Kind) bool {
	key := remark{peer, what}
	if at, ok := r.at[key]; ok && now.Sub(at) < sameRemark {
		return false
	}
	if r.at == nil || len(r.at) >= remarksKept {
		r.at = make(map[remark]reliable.Instant)
	}
	r.at[key] = now
	return true
}

// sayOf logs an event of a peer, once for all groups.
func (j *journal) sayOf(peer uint64, what events.Kind, line *report.Line, args ...any) {
	if j.repeats.say(j.clock.now(), peer, what) {
		j.say(line, args...)
	} else {
		line.Debug(j.log, args...)
	}
}

// publisherCame logs that a publisher is up.
func (j *journal) publisherCame(g *group, st *reliable.Stream) {
	args := publisherArgs(g, st)
	if j.presences.came(st.Instance) {
		j.say(&report.PublisherUp, args...)
	} else {
		report.PublisherUpToo.Log(j.log, args...)
	}
}

// publisherWent logs that a publisher is down: a loss is a warning.
func (j *journal) publisherWent(g *group, st *reliable.Stream, cause events.Cause) {
	args := publisherArgs(g, st)
	switch say := j.presences.went(st.Instance, cause); {
	case !say:
		report.PublisherDownToo.Log(j.log, append(args, "cause", cause)...)
	case cause == events.CausePublisherLost:
		j.say(&report.PublisherLost, args...)
	case cause == events.CauseNone:
		j.say(&report.PublisherEnded, args...)
	default:
		j.say(&report.PublisherDown, append(args, "cause", cause)...)
	}
}

// publisherArgs names a publisher. group is the first that reports it.
func publisherArgs(g *group, st *reliable.Stream) []any {
	args := []any{"publisher", id(st.Publisher)}
	if name := st.Origin().Name; name != "" {
		args = append(args, "name", name)
	}
	return append(args, "epoch", st.Epoch, "group", g.address)
}

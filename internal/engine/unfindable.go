package engine

import (
	"github.com/fanfaremq/fanfare/internal/logline"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// unfindableTold is that one of several loops has told it.
type unfindableTold struct{}

// unfindable passes on that who comes does not find this bus any more. Its loops have an endpoint each, but most
// likely one fate, and what is to be done about it is the same.
func (l *Loop) unfindable(err error) {
	if len(l.siblings.loops) > 1 && !l.siblings.told.first(unfindableTold{}) {
		return
	}
	logline.Unfindable.Log(l.log, "err", err)
	l.event(events.Event{Kind: events.Unfindable, Err: err})
}

// unmet passes on that others are there whom this bus cannot meet.
func (l *Loop) unmet(err error) {
	logline.Unmet.Log(l.log, "err", err)
	l.event(events.Event{Kind: events.Unmet, Err: err})
}

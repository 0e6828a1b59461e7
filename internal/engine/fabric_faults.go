package engine

import (
	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// unfindable reports that new processes can no longer discover this bus.
func (l *Loop) unfindable(err error) {
	report.Unfindable.Log(l.log, "err", err)
	l.event(events.Event{Kind: events.Unfindable, Err: err})
}

// unmet reports other endpoints that this bus cannot connect to.
func (l *Loop) unmet(err error) {
	report.Unmet.Log(l.log, "err", err)
	l.event(events.Event{Kind: events.Unmet, Err: err})
}

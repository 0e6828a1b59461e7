package engine

import (
	"strings"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

func (l *Loop) event(e events.Event) {
	e.For = e.For.Round(time.Millisecond)
	l.counters.events[e.Kind].Add(1)
	l.recent.add(&l.clock, e, l.cfg.RecentEvents)
	l.recordEvent(&e)
	if l.cfg.Events == nil {
		return
	}
	l.watchdog.emitting.Lock()
	defer l.watchdog.emitting.Unlock()
	l.watchdog.called.Store(onEvent)
	l.watchdog.arm()
	l.cfg.Events(e)
}

func (l *Loop) emit(line *report.Line, e events.Event) {
	line.Log(l.log, eventArgs(line, &e)...)
	l.event(e)
}

// eventArgs are the attributes of a line, of an event that it reports.
func eventArgs(line *report.Line, e *events.Event) (args []any) {
	values := map[string]any{
		"subscriber": e.Subscriber, "name": e.Name, "address": e.Address, "group": e.Group, "leg": e.Leg, "topics": e.Topics,
		"publisher": e.Publisher, "epoch": e.Epoch, "other_epoch": e.OtherEpoch, "other_address": e.OtherAddress,
		"for": e.For, "silent_for": e.For, "after": e.For, "err": e.Err, "reason": e.Err,
		"packets": e.Behind, "behind_packets": e.Behind, "waiting_packets": e.Behind, "unread_packets": e.Behind,
	}
	for name := range strings.FieldsSeq(line.Attrs) {
		args = append(args, name, values[name])
	}
	return args
}

func streamEvent(cause events.Cause) events.Kind {
	switch cause {
	case events.CausePublisherLost:
		return events.PublisherLost
	case events.CauseRestart:
		return events.PublisherRestarted
	}
	return events.PublisherEnded
}

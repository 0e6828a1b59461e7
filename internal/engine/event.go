package engine

import "github.com/fanfaremq/fanfare/pubsub/events"

func (l *Loop) event(e events.Event) {
	l.counters.events[e.Kind].Add(1)
	l.recent.add(e, l.cfg.RecentEvents)
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

func streamEvent(cause events.Cause) events.Kind {
	switch cause {
	case events.CausePublisherLost:
		return events.PublisherLost
	case events.CauseRestart:
		return events.PublisherRestarted
	}
	return events.PublisherEnded
}

package engine

import (
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

func (l *Loop) event(e events.Event) {
	l.counters.events[e.Kind].Add(1)
	l.recent.add(e, l.cfg.RecentEvents)
	l.recordEvent(&e)
	if l.cfg.Events == nil {
		return
	}
	l.watchdog.telling.Lock()
	defer l.watchdog.telling.Unlock()
	l.watchdog.called.Store(onEvent)
	l.watchdog.arm()
	l.cfg.Events(e)
}

func streamEvent(cause reliable.Cause) events.Kind {
	switch cause {
	case reliable.CausePublisherLost:
		return events.PublisherLost
	case reliable.CauseRestart:
		return events.PublisherRestarted
	}
	return events.PublisherEnded
}

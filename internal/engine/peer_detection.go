package engine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// A bus on the wrong network interface sends and gets no answer. Publishing without subscribers, or subscribing before
// there is a publisher, looks the same and is no fault. So a bus with a network interface reports it once, as a hint
// that names the interface.

const (
	// undetectedAfter is the time without a detected peer after which this is reported. Peers send heartbeats, statuses
	// and searches at least once a second.
	undetectedAfter = 5 * time.Second
	detectionEvery  = time.Second // how often the loop checks
)

// peerDetection is the state of both sides.
type peerDetection struct {
	mu                    sync.Mutex
	publishes, subscribes undetected
	met                   atomic.Bool // a subscriber to what the bus publishes came, left or was released
}

// undetected is one side of a bus, which may have detected no peer. The lock is its owner's.
type undetected struct {
	// when the bus first had topics that a peer may have, in time that the loop ran; zero: it has none
	since    time.Time
	reported bool
}

// note records that there are such topics, and returns for how long. due: report now that no peer was detected.
func (x *undetected) note(now time.Time) (d time.Duration, due bool) {
	if x.since.IsZero() {
		x.since = now
	}
	d = now.Sub(x.since)
	due = !x.reported && d >= undetectedAfter
	x.reported = x.reported || due
	return d, due
}

// Events that show that a peer was detected, or that already say why none was.
var (
	whyNoSubscriber = []events.Kind{events.ConfigMismatch, events.PacketsUnreadable, events.GroupFailed}
	heardPublisher  = []events.Kind{events.PublisherUp, events.PublisherRefused, events.PublisherFault,
		events.TopicCollision, events.BadPackets, events.ConfigMismatch, events.PacketsUnreadable, events.GroupFailed}
)

// happened reports whether an event of one of the kinds was emitted.
func (l *Loop) happened(kinds []events.Kind) bool {
	return slices.ContainsFunc(kinds, func(k events.Kind) bool { return l.counters.events[k].Load() > 0 })
}

// heardSubscriber reports whether a subscriber was detected that wants, or may want, what the bus publishes, or whether
// an event says why none was.
func (l *Loop) heardSubscriber() bool {
	for _, p := range l.publications() {
		p.mu.Lock()
		if p.m.Wanted() {
			l.detection.met.Store(true)
		}
		p.mu.Unlock()
	}
	return l.detection.met.Load() || l.happened(whyNoSubscriber)
}

func (l *Loop) heardPublisher() bool { return l.happened(heardPublisher) }

// detectionTimer is when the loop checks. Loop only.
type detectionTimer struct {
	at      reliable.Instant
	waiting bool // a report may become due
}

// reportUndetected reports, when due, that no peer was detected, and returns when to check again.
func (l *Loop) reportUndetected(now reliable.Instant) reliable.Instant {
	x := &l.hellos.detection
	if l.cfg.Interface == "" {
		return reliable.Never
	}
	if now >= x.at {
		x.at = now.Add(detectionEvery)
		x.waiting = l.checkDetection(l.start.Add(time.Duration(l.ran(now))))
	}
	if x.waiting {
		return x.at
	}
	return reliable.Never
}

// checkDetection returns whether a report may still become due. ran is the time less that in which the loop did not
// run.
func (l *Loop) checkDetection(ran time.Time) (waiting bool) {
	u := &l.detection
	side := func(x *undetected, heard func() bool, topics func() []string, line *report.Line, kind events.Kind) {
		u.mu.Lock()
		reported := x.reported
		u.mu.Unlock()
		if reported || heard() {
			return
		}
		names := topics()
		if len(names) == 0 {
			return
		}
		u.mu.Lock()
		d, due := x.note(ran)
		u.mu.Unlock()
		if !due {
			waiting = true
			return
		}
		l.say(line, "topics", shownTopics(names), "interface", l.cfg.Interface, "for", d)
		l.event(events.Event{Kind: kind, Topics: names[:min(len(names), topicsShown)], Interface: l.cfg.Interface, For: d})
	}
	side(&u.publishes, l.heardSubscriber, l.offered, &report.NoSubscriberHeard, events.NoSubscriberHeard)
	side(&u.subscribes, l.heardPublisher, l.subscribed, &report.NoPublisherHeard, events.NoPublisherHeard)
	return waiting
}

// offered returns some topics that the bus has published on, or would publish on if there were subscribers.
func (l *Loop) offered() (names []string) {
	waits := l.hellos.waiting.Load() > 0
	for _, p := range l.publications() {
		p.mu.Lock()
		if waits || p.m.Stats().MessagesSent > 0 {
			for _, t := range p.m.TopicsFrom(0, topicsShown+1) {
				names = append(names, t.Name)
			}
		}
		p.mu.Unlock()
		if len(names) > topicsShown {
			return names
		}
	}
	return names
}

// subscribed returns some topics and patterns that are subscribed to. Loop only.
func (l *Loop) subscribed() (names []string) {
	for _, g := range l.receiving {
		for _, t := range g.topics {
			for _, s := range t.users.List()[:min(t.users.Len(), topicsShown+1)] {
				for _, n := range s.names() {
					if !slices.Contains(names, n) {
						names = append(names, n)
					}
				}
				if len(names) > topicsShown {
					return names
				}
			}
		}
	}
	for _, g := range l.receiving {
		most := topicsShown + 1
		for s := range g.patterns.subs {
			for _, n := range s.names() {
				if len(names) <= topicsShown && !slices.Contains(names, n) {
					names = append(names, n)
				}
			}
			if most--; most == 0 {
				break
			}
		}
	}
	slices.Sort(names)
	return names
}

// Undetected returns for how long no peer was detected: no subscriber to what the bus publishes, no publisher for its
// subscriptions. Zero: a peer was detected, or none is missed yet. Time in which the loop did not run does not count.
func (l *Loop) Undetected() (subscriber, publisher time.Duration) {
	u := &l.detection
	of := func(side *undetected, heard func() bool) time.Duration {
		u.mu.Lock()
		reported, since := side.reported, side.since
		u.mu.Unlock()
		if !reported || heard() {
			return 0
		}
		return time.Since(since) - time.Duration(l.watchdog.stand.lost.Load())
	}
	return of(&u.publishes, l.heardSubscriber), of(&u.subscribes, l.heardPublisher)
}

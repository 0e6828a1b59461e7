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

// Whether the bus has detected any peer. On the wrong interface a bus sends, and gets no answer. To publish without
// subscribers, or to subscribe before there is a publisher, looks the same and is no fault. So a bus with a network
// interface reports it once, as a hint that names the interface.

const (
	// undetectedAfter is how long no peer must have been detected: peers send heartbeats, statuses and searches
	// once a second or more often.
	undetectedAfter = 5 * time.Second
	detectionEvery  = time.Second // how often the loop looks
)

// peerDetection is the state of both sides.
type peerDetection struct {
	mu                    sync.Mutex
	publishes, subscribes lonely
	met                   atomic.Bool // a subscriber that wants what the bus publishes came, left or was given up
}

// lonely is one side of a bus. The lock is its owner's.
type lonely struct {
	// when the bus first had topics for which there may be a peer, in time that the loop ran; zero: it has none
	since    time.Time
	reported bool
}

// note records that there are such topics. It reports whether to report now that no peer was detected.
func (x *lonely) note(now time.Time) (d time.Duration, due bool) {
	if x.since.IsZero() {
		x.since = now
	}
	d = now.Sub(x.since)
	due = !x.reported && d >= undetectedAfter
	x.reported = x.reported || due
	return d, due
}

// The events that show that a peer was detected, or already say why none is.
var (
	whyNoSubscriber = []events.Kind{events.ConfigMismatch, events.PacketsUnreadable, events.GroupFailed}
	heardPublisher  = []events.Kind{events.PublisherUp, events.PublisherRefused, events.PublisherFault,
		events.TopicCollision, events.BadPackets, events.ConfigMismatch, events.PacketsUnreadable, events.GroupFailed}
)

// happened reports whether an event of one of these kinds was emitted.
func (l *Loop) happened(kinds []events.Kind) bool {
	return slices.ContainsFunc(kinds, func(k events.Kind) bool { return l.counters.events[k].Load() > 0 })
}

// heardSubscriber reports whether a subscriber was detected that wants what the bus publishes, or may want it, or
// whether an event says why none is.
func (l *Loop) heardSubscriber() bool {
	return l.detection.met.Load() || l.happened(whyNoSubscriber) ||
		slices.ContainsFunc(l.publications(), func(p *Publication) bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.s.Wanted()
		})
}

func (l *Loop) heardPublisher() bool { return l.happened(heardPublisher) }

// detectionTimer is when a loop looks. Loop only.
type detectionTimer struct {
	at      reliable.Instant
	waiting bool // for the time to report
}

// reportUndetected reports, when it is time, that no peer was detected, and returns when to look again.
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

// checkDetection returns whether there may still be something to report. ran is the time without that in which the loop
// did not run.
func (l *Loop) checkDetection(ran time.Time) (waiting bool) {
	u := &l.detection
	side := func(x *lonely, heard func() bool, topics func() []string, line *report.Line, kind events.Kind) {
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

// offered are some of the topics that the bus has published on, or would if there were subscribers.
func (l *Loop) offered() (names []string) {
	waits := l.hellos.waiting.Load() > 0
	for _, p := range l.publications() {
		p.mu.Lock()
		if waits || p.s.Stats().MessagesSent > 0 {
			for _, t := range p.s.TopicsFrom(0, topicsShown+1) {
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

// subscribed are some of the topics and patterns that are subscribed to. Loop only.
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

// Undetected is for how long no peer was detected: no subscriber of what the bus publishes, no publisher for its
// subscriptions. Zero: one was, or the bus needs none. Time in which the loop did not run is no part of it.
func (l *Loop) Undetected() (subscriber, publisher time.Duration) {
	u := &l.detection
	of := func(side *lonely, heard func() bool) time.Duration {
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

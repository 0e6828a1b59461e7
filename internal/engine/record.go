package engine

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
)

// The record of losses (package lossrecord) gets each gap that a subscription reads, the events that go with losses,
// and from time to time all counters.

// sampleEvery is how often counters are recorded while the loop is active.
const sampleEvery = 10 * time.Second

// sampling is when to sample next, and which drops to report. Loop only.
type sampling struct {
	at         reliable.Instant
	unreported []Dropped // found by the last samples
}

// sample passes the counters to Config.Sample, if it is time.
func (l *Loop) sample(now reliable.Instant) {
	if l.cfg.Sample == nil || now < l.counters.sampling.at {
		return
	}
	l.sampleOf(now, l.groupStats(), l.legStats())
}

// sampleOf samples with statistics that the caller has just collected. Loop only.
func (l *Loop) sampleOf(now reliable.Instant, groups []stats.Group, legs []stats.Leg) {
	if l.cfg.Sample == nil {
		return
	}
	l.counters.sampling.at = now.Add(sampleEvery)
	st := l.sharedStats()
	st.Groups, st.Legs = groups, legs
	// Reported later: the caller may be a handler, or OnEvent.
	l.counters.sampling.unreported = append(l.counters.sampling.unreported, l.cfg.Sample(&st)...)
}

// Dropped describes packets that were dropped, or lost in the network.
type Dropped struct {
	Cause   *report.Cause
	Packets uint64 // so far
}

// emitDrops reports the drops found by samples. Loop only, outside of handlers.
func (l *Loop) emitDrops() {
	x := &l.counters.sampling
	for len(x.unreported) > 0 {
		d := x.unreported[0]
		x.unreported = x.unreported[1:]
		l.emitDropped(&d)
	}
}

// emitDropped logs drops and emits their event.
func (l *Loop) emitDropped(d *Dropped) {
	l.say(d.Cause.Line, "cause", d.Cause.Label, "packets", d.Packets, "do", report.Plain(d.Cause.Do))
	l.event(events.Event{Kind: d.Cause.Line.Event, Cause: d.Cause.Label, Behind: d.Packets})
}

// SampleNow passes the counters on at once. A loop that has ended did so at its end.
func (l *Loop) SampleNow() {
	if l.onLoop() { // in a handler
		l.sampleAgain()
		return
	}
	l.do(l.sampleAgain)
}

// sampleAgain samples early. Loop only.
func (l *Loop) sampleAgain() {
	l.counters.sampling.at = 0
	l.sample(l.now())
}

// subscriptionLosses are the losses of one subscription, and its name in the record.
type subscriptionLosses struct {
	losses
	topics atomic.Pointer[string]
}

// topicsShown is how many topics name a subscription in the record.
const topicsShown = 4

// call names the subscription after its topics.
func (x *subscriptionLosses) call(topics []TopicName) {
	var b strings.Builder
	var shown []string
	for _, t := range topics {
		if slices.Contains(shown, t.Name) {
			continue // a pattern is listed once for each of its groups
		}
		if len(shown) == topicsShown {
			b.WriteString(" and more")
			break
		}
		if shown = append(shown, t.Name); len(shown) > 1 {
			b.WriteByte(' ')
		}
		b.WriteString(t.Name)
	}
	s := b.String()
	x.topics.Store(&s)
}

// recordLoss records a gap that is being delivered to the subscription.
func (s *Subscription) recordLoss(it *topics.Item, group string, from *reliable.Origin) {
	record := s.l.cfg.Losses
	if record == nil {
		return
	}
	e := stats.LossEntry{
		Cause: s.l.cfg.CauseLabel(it.Cause), Group: group,
		Publisher: from.Publisher, Epoch: from.Epoch,
		Name: from.Name, Address: from.Address, Number: it.Number, Messages: it.Lost,
	}
	if it.Topic != nil {
		e.Topic = it.Topic.Name
	}
	if topics := s.losses.topics.Load(); topics != nil {
		e.Subscription = *topics
	}
	if it.Lost == 0 {
		e.Unknown = 1
	}
	record.Add(s.l.wall(), e)
}

// recordEvent records an event that goes with losses and concerns a peer of this bus.
func (l *Loop) recordEvent(e *events.Event) {
	if l.cfg.Losses == nil {
		return
	}
	kept := report.Losses()[e.Kind.Label()]
	if kept == nil {
		return
	}
	switch e.Kind {
	case events.PublisherLost, events.PublisherRestarted:
		if !l.mayConcern(e) {
			return
		}
	case events.ConfigMismatch:
		if !e.Relevant {
			return
		}
	}
	x := stats.LossEntry{
		Cause: e.Kind.Label(), Event: true, Subscription: shownTopics(e.Topics),
		Group: e.Group, Leg: e.Leg, Publisher: e.Publisher, Epoch: e.Epoch,
		Name: e.Name, Address: e.Address, For: e.For, Behind: e.Behind,
	}
	if kept.Loss.OfSubscriber {
		x.Publisher, x.Epoch, x.Subscriber = 0, 0, e.Subscriber
	}
	if e.Err != nil {
		x.Err = e.Err.Error()
	}
	if e.OtherAddress != "" {
		x.Err = "the other is at " + e.OtherAddress
	}
	l.cfg.Losses.Add(l.wall(), x)
}

// mayConcern reports whether a subscription here may have lost messages of the event's publisher. One that dies early
// has named no topic.
func (l *Loop) mayConcern(e *events.Event) bool {
	for _, g := range l.receiving {
		for _, st := range g.r.Streams() {
			if st.Publisher == e.Publisher && st.Epoch == e.Epoch && g.address == e.Group && outputOf(st).in.MayConcern() {
				return true
			}
		}
	}
	return e.Relevant
}

// shownTopics returns the text that names a subscription by its topics.
func shownTopics(topics []string) string {
	if len(topics) > topicsShown {
		return strings.Join(topics[:topicsShown], " ") + " and more"
	}
	return strings.Join(topics, " ")
}

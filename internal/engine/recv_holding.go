package engine

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// That this bus holds publishers up, and which subscriptions of it do: as their
// publishers say, and as the bus itself sees. docs/protocol §8.6.

// holds is what was reported of a stream that this bus holds up. Loop only.
type holds struct {
	when     backoffReporter
	released bool // reported
}

// holding reports what publishers have said of this bus since the last call.
func (g *group) holding() {
	for _, st := range g.r.TakeHolding() {
		held, released := st.Holding()
		o := outputOf(st)
		if o.held == nil {
			o.held = new(holds)
		}
		x := o.held
		if released {
			if x.when.over(); !x.released {
				x.released = true
				g.reportHolding(events.ReleasedByPublisher, st, held)
			}
			continue
		}
		x.released = false
		switch {
		case held == 0:
			o.held = nil
		case x.when.due(held):
			g.reportHolding(events.HoldsPublishersUp, st, held)
		}
	}
}

func (g *group) reportHolding(kind events.Kind, st *reliable.Stream, d time.Duration) {
	e := g.event(kind, st)
	e.For = d
	var why holdLines
	e.Topics, e.Behind, why = g.slowest(st)
	args := []any{"publisher", id(st.Publisher), "group", g.address, "for", d, "topics", e.Topics, "unread_packets", e.Behind}
	line := why.holds
	if kind == events.ReleasedByPublisher {
		line = why.released
	}
	g.l.sayOf(st.Publisher, kind, line, args...)
	g.l.event(e)
}

// holdLines are the lines of the log for one reason to hold a publisher up.
type holdLines struct{ holds, released *report.Line }

// slowest is the subscription that holds a stream up: its topics, and how many packets
// it has still to read. Without one that is read it is the handlers. Where all that came is read, and packets are
// missing, it is neither: there are no topics then.
func (g *group) slowest(st *reliable.Stream) (topics []string, behind uint64, why holdLines) {
	var slow *Subscription
	for _, s := range g.subs.List() {
		for _, f := range *s.feeds.Load() {
			if lag := uint64(f.c.Lag()); f.st == st && f.blocking && (slow == nil || lag > behind) {
				slow, behind = s, lag
			}
		}
	}
	switch {
	case behind == 0 && (slow != nil || g.r.AnyMissing()):
		return nil, 0, holdLines{&report.HoldsByLoss, &report.ReleasedForLoss}
	case slow != nil:
		return slow.names(), behind, holdLines{&report.HoldsByReading, &report.ReleasedForReading}
	}
	for _, t := range g.topics {
		if t.handlers.Len() > 0 {
			topics = append(topics, t.name)
		}
	}
	slices.Sort(topics)
	return topics, 0, holdLines{&report.HoldsByHandling, &report.ReleasedForHandling}
}

// names are the subscription's topics and patterns.
func (s *Subscription) names() []string { return s.topics.names() }

// unread follows a cursor that holds its stream up. Loop only.
type unread struct {
	at    uint64 // where it stands
	since reliable.Instant
	when  backoffReporter
}

// note records that the cursor stands at position at at now, and whether it holds the stream up there. It
// reports whether that is to be reported, and for how long it has lasted.
func (x *unread) note(now reliable.Instant, at uint64, holds bool) (d time.Duration, due bool) {
	if !holds || x.since == 0 || at != x.at {
		if x.when.over(); !holds {
			*x = unread{}
			return 0, false
		}
		x.at, x.since = at, now
	}
	d = now.Sub(x.since)
	return d, x.when.due(d)
}

// lasts is for how long the cursor has held the stream up where it stands; 0: it does not.
func (x *unread) lasts(now reliable.Instant) time.Duration {
	if x.since == 0 {
		return 0
	}
	return now.Sub(x.since)
}

// watch reports a cursor that is not read and holds its stream up.
func (s *Subscription) watch(g *group, f *feed, now reliable.Instant) {
	lag := f.c.Lag()
	holds := f.blocking && f.o.full() && lag >= f.st.Span()-f.quarter/2 // as good as the slowest
	d, due := f.unread.note(g.l.ran(now), f.c.Position(), holds)
	if !due {
		return
	}
	e := g.event(events.SubscriptionNotRead, f.st)
	e.For, e.Behind, e.Topics = d, uint64(lag), s.names()
	g.l.sayOf(f.st.Publisher, events.SubscriptionNotRead, &report.SubscriptionNotRead, "topics", e.Topics, "publisher", id(f.st.Publisher), "group", g.address, "for", d, "unread_packets", lag)
	g.l.event(e)
}

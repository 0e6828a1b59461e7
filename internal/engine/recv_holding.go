package engine

import (
	"slices"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// Reports that this bus blocks publishers, and which of its subscriptions do: as publishers report it, and as the bus
// observes it. docs/protocol §8.6.

// holds is what was reported of a stream that this bus blocks. Loop only.
type holds struct {
	when     backoffReporter
	released bool // release was reported
}

// holding reports what publishers have said of this bus since the last call.
func (g *group) holding() {
	for _, st := range g.r.TakeHolding() {
		held, released := st.Holding()
		of, own := g.l.memberships.of, membership{g.index, transport.RoleReceiver}
		until := max(of[own].until, of[membership{group: everyGroup}].until)
		since := g.l.now().Sub(until)
		unfit := until > 0 && since < held // its own trouble is no slow reading
		if !released {
			held = min(held, since)
		}
		o := outputOf(st)
		if o.held == nil {
			o.held = new(holds)
		}
		x := o.held
		if released {
			if x.when.over(); !x.released {
				x.released = true
				g.reportHolding(events.ReleasedByPublisher, st, held, unfit)
			}
			continue
		}
		x.released = false
		switch {
		case held == 0:
			o.held = nil
		case x.when.due(held):
			g.reportHolding(events.HoldsPublishersUp, st, held, false)
		}
	}
}

// reportHolding reports that the bus has blocked a publisher for d. unfit: it was cut off or did not run meanwhile.
func (g *group) reportHolding(kind events.Kind, st *reliable.Stream, d time.Duration, unfit bool) {
	e := g.event(kind, st)
	e.For = d
	var why holdLines
	e.Topics, e.Behind, why = g.slowest(st, unfit)
	line := why.holds
	if kind == events.ReleasedByPublisher {
		line = why.released
	}
	g.l.sayOf(st.Publisher, line, eventArgs(line, &e)...)
	g.l.event(e)
}

// holdLines are the log lines for one reason why this bus blocks a publisher.
type holdLines struct{ holds, released *report.Line }

// slowest returns the topics of the subscription that blocks a stream, and the number of packets that it has still to
// read. Without such a cursor it returns the topics with handlers. If more packets are missing than unread, and the
// window is not nearly full, which refuses packets, or if this bus was unfit, the cause is loss: there are no topics.
func (g *group) slowest(st *reliable.Stream, unfit bool) (topics []string, behind uint64, why holdLines) {
	var slow *Subscription
	for _, s := range g.subs.List() {
		for _, f := range *s.feeds.Load() {
			if lag := uint64(f.c.Lag()); f.st == st && f.blocking && (slow == nil || lag > behind) {
				slow, behind = s, lag
			}
		}
	}
	missed := int(behind) <= min(st.Stats(g.l.now()).Missing, st.Span()/2)
	switch {
	case unfit || missed && (slow != nil || g.r.AnyMissing()):
		return nil, behind, holdLines{&report.HoldsByLoss, &report.ReleasedForLoss}
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

// names returns the subscription's topics and patterns.
func (s *Subscription) names() []string { return s.topics.names() }

// unread observes a cursor that blocks its stream. Loop only.
type unread struct {
	at    uint64 // position of the cursor
	since reliable.Instant
	when  backoffReporter
}

// note records the cursor's position at now, and whether the cursor blocks the stream there. It returns for how long it
// has done so, and whether to report that now.
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

// lasts returns for how long the cursor has blocked the stream at its position; 0: it does not.
func (x *unread) lasts(now reliable.Instant) time.Duration {
	if x.since == 0 {
		return 0
	}
	return now.Sub(x.since)
}

// watch reports a cursor that is not read and blocks its stream.
func (s *Subscription) watch(g *group, f *feed, now reliable.Instant) {
	lag := f.c.Lag()
	holds := f.blocking && f.o.full() && lag >= f.st.Span()-f.quarter/2 // nearly as far behind as the slowest
	d, due := f.unread.note(g.l.ran(now), f.c.Position(), holds)
	if !due {
		return
	}
	e := g.event(events.SubscriptionNotRead, f.st)
	e.For, e.Behind, e.Topics = d, uint64(lag), s.names()
	g.l.sayOf(f.st.Publisher, &report.SubscriptionNotRead, eventArgs(&report.SubscriptionNotRead, &e)...)
	g.l.event(e)
}

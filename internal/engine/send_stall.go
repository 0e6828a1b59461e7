package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// What blocks a publication: reported as events, in the log, and in the errors of calls that wait. docs/protocol §8.6,
// §8.7.

// stalls observes which subscriber blocks a publication. Under its lock.
type stalls struct {
	holder     events.Hold // as last observed; Subscriber 0: none
	when       backoffReporter
	since      reliable.Instant // start of the reported stall; 0: none was reported
	unreported []events.Event   // loop only: to be emitted after the lock is released

	trails trails
}

// trails observes the member that does not keep up.
type trails struct {
	last     reliable.Trailing
	at       reliable.Instant // time of that observation
	when     backoffReporter
	unlogged bool // loop only: to be logged after the lock is released
}

// note records the member that does not keep up at now.
func (x *trails) note(now reliable.Instant, t reliable.Trailing) {
	if x.last.Subscriber == t.Subscriber && now.Sub(x.at) < 2*t.For {
		t.For += x.last.For
	} else {
		x.when.over()
	}
	x.last, x.at = t, now
	x.unlogged = x.unlogged || x.when.due(t.For)
}

// note records the subscriber that blocks the publication at now, if any. It returns the event to emit, if any.
func (x *stalls) note(now reliable.Instant, h events.Hold, held bool) (e events.Event, ok bool) {
	if was := x.holder; was.Subscriber != 0 && (!held || h.Subscriber != was.Subscriber || h.For < was.For) {
		x.when.over() // it let something through, or now another one blocks
	}
	if !held {
		h = events.Hold{}
	}
	last := x.holder
	x.holder = h
	switch {
	case held && x.when.due(h.For):
		if x.since == 0 {
			x.since = now.Add(-h.For)
		}
		return heldEvent(events.PublisherStalled, h), true
	case !held && x.since != 0:
		last.For = now.Sub(x.since)
		x.since = 0
		return heldEvent(events.PublisherResumed, last), true
	}
	return events.Event{}, false
}

func heldEvent(kind events.Kind, h events.Hold) events.Event {
	e := events.Event{Kind: kind, Subscriber: h.Subscriber, Name: h.Name, Address: h.Address, For: h.For, Behind: h.Behind}
	if kind == events.PublisherStalled {
		e.Err = h.Fault
	}
	return e
}

// watchMembers collects events of subscribers, to be emitted after mu is released. Loop only, under mu.
func (p *Publication) watchMembers(now reliable.Instant) {
	p.stalls.unreported = append(p.stalls.unreported, p.s.TakeEvents()...)
	if t, ok := p.s.TakeTrailing(now); ok {
		p.stalls.trails.note(p.s.Ran(now), t)
	}
	ran := p.s.Ran(now)
	h, held := p.s.Holder(now)
	if e, ok := p.stalls.note(ran, h, held); ok {
		p.stalls.unreported = append(p.stalls.unreported, e)
	}
	if e, ok := p.out.stuck.note(ran, p.s.Lead()-p.s.Transmitted()); ok {
		p.stalls.unreported = append(p.stalls.unreported, e)
	}
}

// lineOf returns the line of an event of a publication.
func lineOf(e *events.Event) *report.Line {
	switch {
	case e.Kind == events.SubscriberSilent && e.Err != nil:
		return &report.SubscriberCutOff
	case e.Kind == events.PublisherStalled && errors.Is(e.Err, reliable.ErrUnreached):
		return &report.StalledByLoss
	case e.Kind == events.PublisherStalled && e.Err != nil:
		return &report.StalledBySilence
	}
	return map[events.Kind]*report.Line{
		events.SubscriberUp: &report.SubscriberUp, events.SubscriberLeft: &report.SubscriberLeft,
		events.SubscriberSilent: &report.SubscriberSilent, events.SubscriberReleased: &report.SubscriberReleased,
		events.SlowSubscriber: &report.SlowSubscriber, events.BadPackets: &report.RepliesRefused,
		events.PublisherStalled: &report.PublisherStalled, events.PublisherResumed: &report.PublisherResumed,
		events.CannotSend: &report.CannotSend, events.SendsAgain: &report.SendsAgain,
	}[e.Kind]
}

// emitStalls logs failed sends, and emits the events that watchMembers has collected. Loop only, without mu, because
// handlers may publish.
func (p *Publication) emitStalls() {
	if f := p.out.failed.Load(); f != nil && p.out.failed.CompareAndSwap(f, nil) {
		p.l.sayOf(0, &report.SendFailed, "group", p.l.t.GroupAddress(p.group), "err", f.err, "times", f.times)
	}
	if x := &p.stalls.trails; x.unlogged {
		x.unlogged = false
		t := &x.last
		p.l.sayOf(t.Subscriber, &report.SubscriberTrails, "subscriber", t.Subscriber, "name", t.Name, "address", t.Address, "group", p.l.t.GroupAddress(p.group),
			"for", t.For, "received_packets_per_s", int(t.Received), "published_packets_per_s", int(t.Sent), "behind_packets", t.Behind)
	}
	if len(p.stalls.unreported) == 0 {
		return
	}
	collected := p.stalls.unreported
	p.stalls.unreported = nil
	for _, e := range collected {
		e.Group = p.l.t.GroupAddress(p.group)
		cutOff := p.l.memberships.cutOff(membership{p.group, transport.RoleSender}, p.l.now().Add(-e.For))
		held := e.Kind == events.PublisherStalled || e.Kind == events.SubscriberReleased
		if cutOff != nil && (e.Kind == events.SubscriberSilent || held && e.Err != nil) {
			e.Err = cutOff
		}
		if e.Relevant {
			p.l.detection.met.Store(true)
		}
		line := lineOf(&e)
		p.l.sayOf(e.Subscriber, line, eventArgs(line, &e)...)
		p.l.event(e)
	}
}

// heldError makes the end of a context a *FlowError if flow control blocks the publication, and says why if nothing can
// be sent. Under mu.
func (p *Publication) heldError(err error) error {
	var known *events.FlowError
	if err == nil || errors.As(err, &known) {
		return err
	}
	now := p.l.now()
	if h, ok := p.s.Holder(now); ok {
		return &events.FlowError{Hold: h, Err: err}
	}
	if why := p.out.stuck.why(p.s.Ran(now)); why != nil {
		return fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// live is liveContext for a call that publishes: its error names the subscriber that blocks the publisher.
func (p *Publication) live(ctx context.Context) error {
	err := liveContext(ctx)
	if err == nil || ctx == nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heldError(err)
}

// behind adds the subscriber that misses most to the error of a call that ended by its context, if no subscriber blocks
// the publication.
func (p *Publication) behind(ctx context.Context, err error) error {
	var known *events.FlowError
	if err == nil || ctx == nil || ctx.Err() == nil || errors.As(err, &known) {
		return err
	}
	var last stats.Subscriber
	incomplete, all := 0, p.Members(0)
	for _, m := range all {
		if m.Behind == 0 || m.Released {
			continue
		}
		if incomplete++; m.Behind > last.Behind {
			last = m
		}
	}
	if incomplete == 0 {
		return err
	}
	return fmt.Errorf("%w: %d of %d subscribers do not have everything; %s misses most, %d packets", err, incomplete, len(all), events.PeerText(last.ID, last.Name, last.Address), last.Behind)
}

// missed reports whether data is unsent, or a subscriber that is waited for does not have everything.
func (p *Publication) missed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.s.Unsent() || slices.ContainsFunc(p.m.Members(p.l.now(), 0),
		func(m stats.Subscriber) bool { return m.Behind > 0 && !m.Released })
}

// backPressure returns the error of a call that does not wait. Under mu.
func (p *Publication) backPressure(r events.Reason) error {
	e := &events.BackPressureError{Reason: r, Err: p.out.stuck.why(p.s.Ran(p.l.now()))}
	if r == events.ReasonFlow && e.Err == nil {
		e.Hold, _ = p.s.Holder(p.l.now())
	}
	return e
}

// Members returns the present subscribers of topic; topic zero is any.
func (p *Publication) Members(topic uint64) []stats.Subscriber {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.m.Ask(p.l.now(), topic)
	return p.m.Members(p.l.now(), topic)
}

package engine

import (
	"fmt"
	"slices"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// legs is the state of the transport's legs. Loop only, except t and n.
type legs struct {
	t      transport.Legged // nil: no legs
	n      int
	lost   [transport.MaxLegs]bool             // as reported by the transport
	since  [transport.MaxLegs]reliable.Instant // of lost
	silent map[legOf]struct{}                  // reported streams
	before [transport.MaxLegs]stats.Leg        // of closed receivers
}

// legOf is a stream on one leg.
type legOf struct {
	st  *reliable.Stream
	leg int
}

func newLegs(t transport.Transport) legs {
	l, ok := t.(transport.Legged)
	if !ok {
		return legs{}
	}
	return legs{t: l, n: len(l.Stats().Legs), silent: make(map[legOf]struct{})}
}

// name returns the URL of a leg.
func (x *legs) name(leg int) string { return x.t.Stats().Legs[leg].URL }

// tags returns the tags of a group, one per leg; nil without legs.
func (x *legs) tags(group int) (tags []uint32) {
	for i := range x.n {
		tags = append(tags, wire.GroupTag(x.t.LegAddress(i, group)))
	}
	return tags
}

// forget removes a stream.
func (x *legs) forget(st *reliable.Stream) {
	for leg := range x.n {
		delete(x.silent, legOf{st, leg})
	}
}

// legChanged reports that the transport has lost a leg, or has it back.
func (l *Loop) legChanged(e *transport.Event) {
	x, now := &l.inbox.legs, l.now()
	leg := int(e.Leg)
	name := x.name(leg)
	if x.lost[leg] = e.Kind == transport.LegLost; x.lost[leg] {
		x.since[leg] = now
		line, err := &report.LegDown, e.Err
		if !slices.Contains(x.lost[:x.n], false) {
			line, err = &report.LegsDown, fmt.Errorf("%w: %s", err, report.NoLeg)
		}
		l.emit(line, events.Event{Kind: events.LegDown, Leg: name, Err: err})
		return
	}
	l.emit(&report.LegBack, events.Event{Kind: events.LegBack, Leg: name, For: now.Sub(x.since[leg])})
}

// Leg implements reliable.Sink. If the transport itself has lost the leg, that was reported.
func (g *group) Leg(st *reliable.Stream, e reliable.LegEvent) {
	l, x := g.l, &g.l.inbox.legs
	key := legOf{st, e.Leg}
	_, reported := x.silent[key]
	ev := g.event(events.LegBack, st)
	ev.Leg, ev.For, ev.Address = x.name(e.Leg), e.For, st.Origin().Address
	args := append(publisherArgs(st.Origin(), g.address), "leg", ev.Leg, "for", e.For)
	switch {
	case g.suppressed || x.lost[e.Leg] && !reported || !g.speaks(st.Instance):
	case e.Silent:
		x.silent[key] = struct{}{}
		ev.Kind = events.LegDown
		l.sayOf(st.Publisher+events.ID(e.Leg), &report.LegSilent, args...)
		l.event(ev)
	case reported:
		delete(x.silent, key)
		report.LegHeard.Log(l.log, args...)
		l.event(ev)
	}
}

// legStats returns the statistics of each leg.
func (l *Loop) legStats() []stats.Leg {
	all := l.t.Stats().Legs
	for i := range all {
		addLeg(&all[i], &l.inbox.legs.before[i])
	}
	for g := range l.counted() {
		for i, s := range g.r.LegStats() {
			addLeg(&all[i], &s)
		}
	}
	return all
}

// addLeg adds the packet counts of o, for the same leg, to s.
func addLeg(s, o *stats.Leg) {
	s.Packets += o.Packets
	s.Copies += o.Copies
	s.Lost += o.Lost
	s.Filled += o.Filled
	s.Late += o.Late
	s.Duplicates += o.Duplicates
	s.Repairs += o.Repairs
	s.Falls += o.Falls
	s.Silent += o.Silent
	s.Skew = max(s.Skew, o.Skew)
}

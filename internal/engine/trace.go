package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// TraceKind is the step that a Trace describes. Package pubsub has a function for each.
type TraceKind uint8

const (
	TraceSent TraceKind = iota
	TraceNAKReceived
	TraceMissing
	TraceNAKSent
	TraceRepaired
	TraceDelivered
	TraceLost
)

// Trace describes a step of Packets packets from First on.
type Trace struct {
	Kind  TraceKind
	Group string
	events.Instance
	Name           string
	Subscriber     uint64
	First, Packets uint64
	Bytes          int
	Repair         bool
	Took           time.Duration
	Cause          events.Cause
}

// traceLoss passes a step of lost packets to Config.Trace. Loop only.
func (g *group) traceLoss(from *reliable.Origin, e *reliable.LossEvent) {
	kind := TraceMissing
	switch e.Step {
	case reliable.LossAsked:
		return // LossNAK has all of them at once
	case reliable.LossNAK:
		kind = TraceNAKSent
	case reliable.LossRepaired:
		kind = TraceRepaired
	case reliable.LossDelivered:
		kind = TraceDelivered
	}
	g.trace(from, &Trace{Kind: kind, First: e.Seq, Packets: e.Count, Took: e.Took})
}

func (g *group) trace(from *reliable.Origin, t *Trace) {
	t.Group, t.Instance, t.Name = g.address, from.Instance, from.Name
	g.l.cfg.Trace(t)
}

func (x *senderSink) traceSent(t *reliable.SentTrain) {
	x.trace(&Trace{Kind: TraceSent, First: t.First, Packets: uint64(t.Packets), Bytes: t.Bytes, Repair: t.Repair})
}

func (x *senderSink) traceAsked(receiver, first, count uint64) {
	x.trace(&Trace{Kind: TraceNAKReceived, Subscriber: receiver, First: first, Packets: count})
}

func (x *senderSink) trace(t *Trace) {
	c := &x.l.cfg
	t.Group, t.Publisher, t.Epoch, t.Name = x.l.t.GroupAddress(x.group), c.Publisher, c.Epoch, c.Name
	c.Trace(t)
}

package pubsub

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Trace has functions that are called as packets are sent, lost and repaired, like net/http/httptrace. Functions that
// are nil are not called; without a Trace the cost is one comparison for each train sent and each packet lost. A
// train is the packets of one send call.
//
// Sent and NAKReceived are called by the goroutine that sends, of a publisher or of the bus, with the group's lock
// held; the others by the bus's own goroutine. All must return soon and must not use the bus: a call on it may
// deadlock. Several may be called at the same time.
type Trace struct {
	// Sent: the fabric accepted a train of packets.
	Sent func(TraceSent)
	// NAKReceived: a subscriber requests missing packets, Packets in all; First is the lowest.
	NAKReceived func(TraceNAK)
	// Missing: packets of a publisher were found missing.
	Missing func(TraceLoss)
	// NAKSent: one NAK requests Packets missing packets; First is the lowest. Some may have been requested before.
	NAKSent func(TraceLoss)
	// Repaired: a repair has arrived, Took after the packet was found missing.
	Repaired func(TraceLoss)
	// Delivered: a repaired packet is delivered in order, Took after the repair arrived.
	Delivered func(TraceLoss)
	// Lost: packets were given up, because of Cause.
	Lost func(TraceLoss)
}

// TraceSent describes a train of packets. Sequences are consecutive, except in a train of repairs.
type TraceSent struct {
	Group   string // address
	First   uint64 // sequence of the first packet
	Packets int
	Bytes   int  // of all packets, including Fanfare's headers
	Repair  bool // they were sent before
}

// TraceNAK is a NAK that has arrived.
type TraceNAK struct {
	Group      string    // address
	Subscriber events.ID // random id
	First      uint64    // sequence of the lowest requested packet
	Packets    uint64    // number of requested packets
}

// TraceLoss describes lost packets: Packets of them, from sequence First on.
type TraceLoss struct {
	Group     string // address
	Publisher PublisherID
	Name      string // the publisher's Config.Name; empty if it has none
	Epoch     events.ID
	First     uint64
	Packets   uint64
	Took      time.Duration // of Repaired and Delivered
	Cause     events.Cause  // of Lost
}

// call calls the function for x, if it is set.
func (t *Trace) call(x *engine.Trace) {
	switch x.Kind {
	case engine.TraceSent:
		if t.Sent != nil {
			t.Sent(TraceSent{x.Group, x.First, int(x.Packets), x.Bytes, x.Repair})
		}
		return
	case engine.TraceNAKReceived:
		if t.NAKReceived != nil {
			t.NAKReceived(TraceNAK{x.Group, events.ID(x.Subscriber), x.First, x.Packets})
		}
		return
	}
	of := [...]func(TraceLoss){
		engine.TraceMissing: t.Missing, engine.TraceNAKSent: t.NAKSent,
		engine.TraceRepaired: t.Repaired, engine.TraceDelivered: t.Delivered, engine.TraceLost: t.Lost,
	}
	if f := of[x.Kind]; f != nil {
		f(TraceLoss{x.Group, x.Publisher, x.Name, x.Epoch, x.First, x.Packets, x.Took, x.Cause})
	}
}

package reliable

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// EventKind is the kind of an Event.
type EventKind uint8

const (
	// EventPacket is the next packet of the stream.
	EventPacket EventKind = iota
	// EventGap: Count packets from Seq on are lost permanently, for Cause.
	EventGap
	// EventDown: the publisher is lost, for Cause. More may follow.
	EventDown
	// EventFault: the publisher violates the protocol: one of its packets does not parse. For the 1st, 2nd, 4th, 8th …
	// occurrence, when it arrives. Readers report the faults that they find themselves.
	EventFault
	// EventEnd is the last event: the publisher has ended (CauseNone), or was lost before. Count packets from Seq on are
	// lost.
	EventEnd
)

// Event is one element of the ordered output of a stream.
type Event struct {
	Kind   EventKind
	Cause  events.Cause // EventGap, EventDown, EventEnd
	Slot   uint32       // EventPacket: slot of the packet, or ring.NoSlot
	Seq    uint64       // of the packet, the first lost packet, or the next packet
	Count  uint64       // EventGap, EventEnd: packets lost
	Packet []byte       // EventPacket: the whole packet, in readable form
	Packed int          // EventPacket: its size in the slot with a codec; 0: it has none
	Step   int          // EventPacket: wire.Data.Step, if known
	Fault  *events.FaultError
}

// LostBy is why the packets of an EventGap or EventEnd are lost. A publisher that has ended has withdrawn the packets
// beyond its end (CauseGone).
func (e *Event) LostBy() events.Cause {
	if e.Cause == events.CauseNone {
		return events.CauseGone
	}
	return e.Cause
}

// Size is how many bytes the packet of an EventPacket occupies in its slot.
func (e *Event) Size() int {
	if e.Packed > 0 {
		return e.Packed
	}
	return len(e.Packet)
}

// Output receives the events of one stream, in order. A receiver calls it during Handle, Tick and Resume; meanwhile an
// Output may call only methods of the receiver and its streams that change nothing.
type Output interface {
	// Room reports whether the output can take the next event. If not, the stream stalls, holds later packets, and
	// continues with Receiver.Resume or Tick.
	Room() bool
	// Deliver takes the next event; event and packet are valid during the call. It reports whether the output keeps the
	// slot of the packet, which it then releases to the stream's Slots itself. EventEnd and EventFault come even without
	// room, and so do other events while the stream has no memory to hold packets.
	Deliver(e *Event) (kept bool)
	// Backlog is how many events are unread by readers that hold the stream up, and how many kept slots no reader needs
	// any more.
	Backlog() (unread, held int)
	// Reclaim releases the slots of packets that have been read. If none is free then, it takes up to n slots from readers
	// that may be overtaken.
	Reclaim(n int)
	// Abandon gives up all slots, because the stream's memory is freed: after the EventEnd, or while no packets are kept.
	// It reports false while a reader uses a packet. It is not called after Unkeep.
	Abandon() bool
}

// event resets the receiver's event for reuse, and returns it.
func (r *Receiver) event(kind EventKind, seq uint64) *Event {
	e := &r.scratch
	*e = Event{Kind: kind, Slot: ring.NoSlot, Seq: seq}
	return e
}

// Output returns the output of the stream's events.
func (st *Stream) Output() Output { return st.out }

// Keep makes the output keep packets from now on: they are delivered in slots of the returned pool. It returns nil if
// there is no memory for a window.
func (st *Stream) Keep() *ring.Slots {
	if !st.window() {
		return nil
	}
	st.win.keeps = true
	return st.win.slots
}

// Unkeep ends Keep: the output keeps no more packets, and must have released its slots. If the stream is over, its
// memory is freed now.
func (st *Stream) Unkeep() {
	st.win.keeps = false
	if slices.Contains(st.r.detached, st) {
		st.freeWindow()
	}
}

// deliverPacket delivers packet b, which is next, and in readable form is p. control: as in entry.
func (st *Stream) deliverPacket(b, p []byte, slot uint32, step int, control bool) (kept bool) {
	follow := st.contents.Packet(st.next, PacketData(p), control)
	e := &st.r.scratch
	e.Kind, e.Slot, e.Seq, e.Packet, e.Packed, e.Step = EventPacket, slot, st.next, p, 0, step
	if wire.CodecOf(b) != wire.CodecNone {
		e.Packed = len(b)
	}
	if st.next >= st.clock.timer.next {
		st.clock.timer.deliver(st)
	}
	if kept = st.out.Deliver(e); follow {
		st.contents.Delivered(st.next)
	}
	return kept
}

// counted counts a packet that arrived for the first time.
func (st *Stream) counted(b []byte) {
	st.r.stats.Packets++
	st.r.stats.Bytes += uint64(len(b))
}

// malformed records that a packet of the stream does not parse.
func (st *Stream) malformed() {
	st.r.stats.Malformed++
	st.fault(events.FaultPacket)
}

// fault records a fault of the publisher that is found when a packet arrives, and delivers an EventFault if one is due.
func (st *Stream) fault(kind events.Fault) {
	if n, emit := st.faults.Add(kind); emit && !st.life.finished {
		e := st.r.event(EventFault, st.next)
		e.Fault = &events.FaultError{Publisher: st.Publisher, Epoch: st.Epoch, Fault: kind, Count: n}
		st.out.Deliver(e)
	}
}

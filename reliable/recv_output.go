package reliable

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// EventKind says what an Event is.
type EventKind uint8

const (
	// EventPacket is the next packet of the stream.
	EventPacket EventKind = iota
	// EventGap: Count packets from Seq on are lost permanently, because of Cause.
	EventGap
	// EventTotal: how far a topic had come at this point of the stream, that all totals have arrived, or that the
	// publisher is lost.
	EventTotal
	// EventCollision: the publisher uses the id of a wanted topic for another name. Messages under that id from here on
	// are of the other topic. Once a stream and topic; Stream.Collided serves later readers.
	EventCollision
	// EventFault: the publisher breaks the rules of the protocol: one of its packets does not parse. For the 1st, 2nd,
	// 4th, 8th … one, when it arrives; Readers report their own findings.
	EventFault
	// EventUnreadable: packets of the publisher are compressed with a dictionary that is not known here. They are gaps.
	// Once a stream and dictionary, when the first arrives.
	EventUnreadable
	// EventUnnamed: a message of Topic follows; its name was requested (LearnNames) and did not arrive, or is one too
	// many, as Cause says. Once a stream and topic, as far as it is remembered.
	EventUnnamed
	// EventState: the runs with state in Packet, which is no whole packet, are what the
	// stream begins with (ReceiverConfig.FromState). They come before anything else of it.
	EventState
	// EventStateEnd: that was all of it, or there is none, because of State.
	EventStateEnd
	// EventEnd is the last event. The publisher has ended (CauseNone), or was lost
	// before. Count packets from Seq on are lost with it.
	EventEnd
)

// Event is one thing that a stream delivers, in order.
type Event struct {
	Kind       EventKind
	Cause      events.Cause // EventGap, EventEnd, EventUnnamed
	Slot       uint32       // EventPacket: where the packet lies; ring.NoSlot: in no slot
	Seq        uint64       // of the packet, the first one lost, or the one that comes next
	Count      uint64       // EventGap, EventEnd: packets lost; EventUnnamed: how many of them there were, with this; EventStateEnd: bytes of the window, with StateOverrun
	Packet     []byte       // EventPacket: the whole packet, unpacked
	Packed     int          // EventPacket: bytes of it where it lies, if it is compressed there
	Step       int          // EventPacket: wire.Data.Step, where that is known
	Total      TopicTotal
	Topic      uint64 // EventUnnamed: its id
	Collision  *events.TopicCollisionError
	Fault      *events.FaultError
	Unreadable *events.DictionaryError
	State      events.StateCause // EventStateEnd
	Topics     []uint64          // EventStateEnd: those that are wanted, and that the publisher has or may have
	Announced  []string          // EventEnd, EventTotal of a lost publisher: Stream.Announced
}

// LostBy is why the packets of an EventGap or EventEnd are lost. What a publisher that has ended said before
// that there is beyond its end, it has taken back.
func (e *Event) LostBy() events.Cause {
	if e.Cause == events.CauseNone {
		return events.CauseGone
	}
	return e.Cause
}

// Size is how many bytes the packet of an EventPacket has where it lies.
func (e *Event) Size() int {
	if e.Packed > 0 {
		return e.Packed
	}
	return len(e.Packet)
}

// Output takes the events of one stream, in order. A receiver calls it from within Handle, Tick and Resume; an Output
// calls no method of the receiver and of its streams meanwhile but those that only read.
type Output interface {
	// Room reports whether the next event can be taken now. If not, the stream stops, holds back later packets, and
	// continues with Receiver.Resume or Tick.
	Room() bool
	// Deliver takes the next event; event and packet are valid during the call. It reports whether the output keeps the
	// slot of a packet: it gives that back to the stream's Slots itself. An EventEnd, an EventFault and an EventUnreadable
	// come without room, too, and other events do while the stream has no memory to hold anything back.
	Deliver(e *Event) (kept bool)
	// Backlog is how many events are unread by readers that hold the stream up, and how many slots are kept that no
	// reader needs any more.
	Backlog() (unread, held int)
	// Reclaim gives back the slots of packets that have been read. If none is free
	// then, it takes up to n from readers that may be overtaken.
	Reclaim(n int)
	// Abandon gives up all slots, because the stream's memory is freed: after the EventEnd, or while no packets are
	// kept. It reports false while a reader uses a packet; after Unkeep it is not asked.
	Abandon() bool
}

// event returns the receiver's event, emptied, to be filled and delivered.
func (r *Receiver) event(kind EventKind, seq uint64) *Event {
	e := &r.scratch
	*e = Event{Kind: kind, Slot: ring.NoSlot, Seq: seq}
	return e
}

// Output is where the stream's events go.
func (st *Stream) Output() Output { return st.out }

// Keep says that the output keeps packets from here on: they are delivered in slots,
// and these are returned. It returns nil when there is no memory for a window.
func (st *Stream) Keep() *ring.Slots {
	if !st.window() {
		return nil
	}
	st.win.keeps = true
	return st.win.slots
}

// Unkeep says that the output keeps no more packets from here on. It gives back what it
// has. The memory of a stream that is over goes now.
func (st *Stream) Unkeep() {
	st.win.keeps = false
	if slices.Contains(st.r.detached, st) {
		st.freeWindow()
	}
}

// deliverPacket delivers packet b, which is next, and readable as p.
func (st *Stream) deliverPacket(b, p []byte, slot uint32, step int) (kept bool) {
	e := &st.r.scratch
	e.Kind, e.Slot, e.Seq, e.Packet, e.Packed, e.Step = EventPacket, slot, st.next, p, 0, step
	if wire.CodecOf(b) != wire.CodecNone {
		e.Packed = len(b)
	}
	if st.next >= st.clock.timer.next {
		st.clock.timer.deliver(st)
	}
	if len(st.topics.names.refused) > 0 {
		st.passOver(p)
	}
	return st.out.Deliver(e)
}

// counted counts a packet that came for the first time.
func (st *Stream) counted(b []byte) {
	st.r.stats.Packets++
	st.r.stats.Bytes += uint64(len(b))
}

package reliable

import (
	"errors"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Stream is one publisher's stream at a receiver.
//
//	start ≤ next ≤ tracked ≤ high
//
// Packets below next are delivered or given up. Packets from next up to tracked have an entry: missing, held, lent or
// gone. All packets below high exist; those from tracked on do not fit the window yet.
type Stream struct {
	r *Receiver
	events.Instance
	origin     atomic.Pointer[Origin]
	out        Output
	contents   Contents
	plain      plainHeader
	packetSize int
	path       paths

	start, next, tracked, high uint64
	win                        recvWindow
	stalled                    bool // the output has no room
	abandon                    abandoned
	guard                      sequenceGuard
	clock                      clocks

	life       liveness
	duplicates reportedDuplicates
	holding    holding
	nak        nakState
	report     reportState
	faults     events.FaultCounts
}

// clocks tracks the publisher's two clocks: that of its heartbeats, and that which times deliveries.
type clocks struct {
	clockGuard
	timer deliveryTimer
}

// plainHeader is the header of the stream's data packets without flags.
type plainHeader struct {
	head  [wire.HeaderLen]byte
	known bool // a packet with this header was checked
}

// paths is how packets of a stream arrive, and how its publisher is answered.
type paths struct {
	tag      uint32 // of its packets and of replies
	checksum bool   // its packets have a checksum, and replies need one
	peer     uint32 // destination of control packets, with one leg
	legs     *streamLegs
}

func newStream(r *Receiver, h *wire.Header, packetSize int, start uint64, peer uint32, now Instant) *Stream {
	st := &Stream{
		r: r, Instance: h.Instance(), packetSize: packetSize,
		path:  paths{peer: peer, tag: h.GroupTag, checksum: h.Flags&wire.FlagChecksum != 0},
		start: start, next: start, tracked: start, high: start,
		life: liveness{heard: r.up(now), upAt: r.up(now), heartbeatEvery: quietHeartbeat},
	}
	st.report.wake, st.report.every, st.report.at = &r.wake, maxStatusEvery, now
	st.clock.timer.next = noTiming
	st.nak.wake, st.nak.at, st.nak.expireAt = &r.wake, Never, Never
	st.win.span = st.leastWindow() // the promise to the publisher until there is a window
	if r.legs != nil {
		x := newStreamLegs(r.legs, start, r.up(now))
		x.of[r.leg].peer, x.of[r.leg].known, x.lead = peer, true, r.leg
		st.path.legs = x
	}
	return st
}

// Contents is the message layer's part of one stream, which reads the runs of its packets. The stream calls it during
// Handle, Tick, Resume and Next; it may then call the stream's Report and BeginAt.
type Contents interface {
	// Check returns the readable form of packet b, which has a codec and has arrived, valid until the next call. It fails
	// with ErrUnreadable, wire.ErrUnsupported for a codec that is left out, or another error if b is malformed.
	// docs/protocol §13.6, §26.
	Check(b []byte) ([]byte, error)
	// Readable returns the readable form of a packet that Check accepted: one that waits is held as it came. Nil: it
	// cannot be decoded any more.
	Readable(b []byte) []byte

	// Packet: packet seq, with these runs, is delivered next. control: it may have other runs than messages. follow: call
	// Delivered after it.
	Packet(seq uint64, runs []byte, control bool) (follow bool)
	// Delivered: the output has packet seq.
	Delivered(seq uint64)
	// Lost: the packets from sequence seq up to end are lost permanently.
	Lost(seq, end uint64)

	// Fetch: the stream begins to fetch its history (ReceiverConfig.FromWindow), the packets from first up to end.
	Fetch(first, end uint64)
	// Came: a packet of the history has arrived.
	Came(now Instant, seq uint64, runs []byte)
	// Begin reports whether the history can be delivered. It may call Waiting for packets behind it, and BeginAt.
	Begin(now Instant) bool
	// Fetched: the history is delivered next.
	Fetched()

	// Join joins the stream (ReceiverConfig.Joins), by packets that wait. It reports whether packets are to be delivered
	// now. What should have arrived by judged has. It may call Waiting and BeginAt.
	Join(now, judged Instant) bool
	// JoinDue is when Join may return another result though no packet arrives.
	JoinDue() Instant
	// Reread: packets that wait were dropped. Overrun: packets that wait exceed the window.
	Reread()
	Overrun()

	// Status adds the message layer's part to the next status. want: all of it, which takes space. all: it added all.
	Status(s *wire.Status, want bool) (flags wire.Flags, topics []uint64, all bool)
	// Heartbeat: a new heartbeat has these flags, and asks whether a topic is wanted; 0: none. due: a status must answer.
	Heartbeat(flags wire.Flags, asked uint64) (due bool)
	// Removed: the stream was removed.
	Removed()
}

// Start is the first sequence of the stream that this receiver delivers.
func (st *Stream) Start() uint64 { return st.start }

// Next is the lowest sequence that is neither delivered nor given up. While the history is fetched it is the stream's
// start.
func (st *Stream) Next() uint64 {
	if st.win.history.open {
		return st.start
	}
	return st.next
}

// Reached is Next, but of the packets that are still to be fetched while the history is fetched.
func (st *Stream) Reached() uint64 { return st.next }

type entryState uint8

const (
	entryEmpty entryState = iota
	entryMissing
	entryHeld // in a slot
	entryLent // in the fabric's memory
	entryGone
)

// entry is what a receiver knows of a packet between next and tracked.
type entry struct {
	state   entryState
	cause   events.Cause
	tries   uint8
	size    uint16  // of a held packet
	slot    uint32  // of a held packet; the loan of a lent one
	control bool    // a held or lent packet may have runs that concern more than their topics
	since   upTime  // when it was found missing; in a held or lent repair, when that arrived
	due     Instant // when to request it next
	asked   Instant // when it was last requested
}

// data processes a data packet that missed the fast path of Handle.
func (r *Receiver) data(now Instant, from uint64, h *wire.Header, b []byte) {
	repair := h.Flags&wire.FlagRepair != 0
	d, err := wire.ParseData(b)
	if err != nil && !errors.Is(err, wire.ErrUnsupported) {
		st := r.instances.streams[h.Instance()]
		switch {
		case st == nil:
			r.stats.Malformed++
		case len(b) < wire.DataHeaderLen:
			st.malformed()
		default:
			st.malformedData(now, wire.DataSeq(b), repair)
		}
		return
	}
	st := r.stream(now, from, h, d.PacketSize, extent{d.Seq, d.Seq}, nil)
	if st != nil && st.life.finished && !repair && d.Seq >= st.life.endAt && d.Seq-st.life.endAt < st.reach() {
		r.revive(st)
		st = r.stream(now, from, h, d.PacketSize, extent{d.Seq, d.Seq}, nil)
	}
	switch {
	case st == nil && repair:
		r.stats.Unstarted++
	case st == nil:
	case err != nil || d.PacketSize != st.packetSize:
		st.unsupported(now, b, &d, repair)
	default:
		if h.Flags == 0 {
			st.plain.head, st.plain.known = [wire.HeaderLen]byte(b), true
		}
		st.takeData(now, b, &d, repair)
	}
}

func (st *Stream) takeData(now Instant, b []byte, d *wire.Data, repair bool) {
	if d.Codec != wire.CodecNone {
		st.decode(now, b, d, repair)
		return
	}
	st.data(now, b, d, repair)
}

// data processes a data packet, which the decoder has checked if it has a codec.
func (st *Stream) data(now Instant, b []byte, d *wire.Data, repair bool) {
	seq := d.Seq
	if st.life.finished {
		st.r.stats.Duplicates++
		return
	}
	if st.path.legs != nil && seq >= st.start && seq-st.next < st.win.span {
		st.arrived(now, seq, repair)
	}
	if seq-st.high < st.win.span { // new, and near: older packets may be replays
		st.alive(now)
	}
	if seq == st.next && st.high == seq && !st.stalled && st.inOrder(now, b, d) {
		return
	}
	if st.win.slots == nil && seq >= st.next && seq-st.next < uint64(st.r.cfg.WindowBytes/st.packetSize) {
		st.window() // now, because the window's size decides
	}
	switch {
	case seq < st.start:
		st.r.stats.Unstarted++
	case seq < st.next:
		st.r.stats.Duplicates++
	case seq-st.next >= st.win.span:
		st.overrun(now, seq)
	default:
		st.accept(now, seq, b, d, repair)
	}
}

// inOrder delivers the next packet when none is missing. It reports false if the output cannot take the packet.
func (st *Stream) inOrder(now Instant, b []byte, d *wire.Data) bool {
	p := st.readable(b)
	if !st.out.Room() {
		return false
	}
	slot := ring.NoSlot
	if st.win.keeps {
		var ok bool
		if slot, ok = st.put(now, st.next, b); !ok {
			return false
		}
	}
	st.counted(b)
	st.deliverNext(b, p, slot, d)
	st.finish(now)
	return true
}

// deliverNext delivers packet b, in readable form p, which is next while none is missing.
func (st *Stream) deliverNext(b, p []byte, slot uint32, d *wire.Data) {
	kept := st.deliverPacket(b, p, slot, d.Step, hasControl(d))
	if slot != ring.NoSlot && !kept {
		st.win.slots.Release(slot)
	}
	st.next++
	st.tracked, st.high = st.next, max(st.high, st.next)
}

// hasControl reports whether a packet may have runs beside messages, which the message layer may read before its turn.
func hasControl(d *wire.Data) bool { return d.Topics || d.Codec != wire.CodecNone }

// accept processes a packet within the window.
func (st *Stream) accept(now Instant, seq uint64, b []byte, d *wire.Data, repair bool) {
	if seq >= st.high {
		st.alive(now)
	}
	if !st.window() {
		// Without memory nothing can wait: the missing packets are lost, and the stream continues.
		st.skipUnseen(seq-st.next, events.CauseOverrun)
		p := st.readable(b)
		st.counted(b)
		st.deliverNext(b, p, ring.NoSlot, d)
		st.finish(now)
		return
	}
	st.extend(now, seq)
	st.win.entries.reach(st.next, st.tracked, seq+1)
	e := st.win.entries.at(seq)
	if seq < st.tracked && e.state != entryMissing {
		st.r.stats.Duplicates++ // held, or given up
		return
	}
	// A packet that is delivered at once need not be held.
	direct := seq == st.next && !st.win.keeps && !st.stalled && !st.win.history.open && st.out.Room()
	var held entry
	if !direct {
		var ok bool
		if held, ok = st.hold(now, seq, b); !ok {
			st.r.stats.Overrun++
			st.extend(now, seq+1) // the packet exists, and will be requested
			return
		}
		held.control = hasControl(d)
	}
	repaired := false
	if seq < st.tracked {
		repaired = st.found(now, seq, e, repair)
	} else {
		st.tracked = seq + 1
		st.high = max(st.high, seq+1)
	}
	st.counted(b)
	*e = held
	if repaired {
		e.since = st.r.up(now)
	}
	if h := &st.win.history; h.open && seq < h.end {
		if p := st.readable(b); p != nil {
			st.contents.Came(now, seq, PacketData(p))
		}
	}
	if direct {
		st.deliverPacket(b, st.readable(b), ring.NoSlot, 0, hasControl(d))
		if repaired {
			st.reportDelivered(now, e)
		}
		st.next++
	}
	if direct || seq == st.next || st.stalled || st.win.history.open {
		st.advance(now)
	}
}

// advance delivers the packets that are in order.
func (st *Stream) advance(now Instant) {
	if st.life.finished {
		return // the output has had its EventEnd
	}
	st.stalled = false
	if !st.win.history.settled(st, now) {
		return
	}
	if st.win.join.phase != joinNone && !st.join(now) {
		st.stalled = true
		return
	}
	for st.next < st.tracked {
		e := st.win.entries.at(st.next)
		if e.state == entryMissing {
			break
		}
		if !st.out.Room() || st.win.keeps && e.state == entryLent && !st.settle(now, e) {
			st.stalled = true
			return
		}
		if e.state == entryGone {
			st.skip(st.goneRun(), e.cause)
			continue
		}
		slot, b := ring.NoSlot, st.packet(e)
		p := st.readable(b)
		if p == nil {
			st.drop(e)
			*e = entry{state: entryGone, cause: events.CauseUnreadable}
			continue
		}
		if e.state == entryHeld {
			slot = e.slot
		}
		if st.deliverPacket(b, p, slot, 0, e.control) {
			e.state = entryEmpty // the output owns the slot
		} else {
			st.drop(e)
		}
		if e.since != 0 {
			st.reportDelivered(now, e)
		}
		st.next++
	}
	if st.next == st.tracked && st.abandon.below > st.next {
		if !st.out.Room() {
			st.stalled = true
			return
		}
		st.skipUnseen(st.abandon.below-st.next, st.abandon.cause)
	}
	if st.tracked < st.high {
		st.extend(now, st.high)
	}
	st.flushDown()
	st.finish(now)
}

// goneRun counts the packets from next on that were given up for the same cause.
func (st *Stream) goneRun() uint64 {
	cause := st.win.entries.at(st.next).cause
	n := uint64(0)
	for st.next+n < st.tracked {
		e := st.win.entries.at(st.next + n)
		if e.state != entryGone || e.cause != cause {
			break
		}
		e.state = entryEmpty
		n++
	}
	return n
}

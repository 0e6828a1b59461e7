package reliable

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// Stream is one publisher's stream at a receiver.
//
//	start ≤ next ≤ tracked ≤ high
//
// Packets below next are delivered or given up. From next to tracked each has
// an entry: missing, held or gone. All below high exist; those from tracked on
// do not fit the window yet.
type Stream struct {
	r          *Receiver
	Publisher  uint64
	Epoch      uint64
	Data       any // the sink's own
	packetSize int
	peer       uint32 // where NAKs and statuses go

	start, next, tracked, high uint64
	entries                    []entry // by sequence & mask; nil until needed
	mask                       uint64
	span                       uint64 // packets that fit the window
	missing                    int    // entries that are missing
	slots                      *ring.Slots
	log                        *ring.Log // nil without cursors
	mem                        []byte
	stalled                    bool   // the log is full: a cursor holds us up
	abandon                    uint64 // beyond the window: given up below
	abandonCause               Cause
	far                        uint64 // a packet beyond the window, to be believed when another confirms it

	heard     Instant
	down      bool // silent: the publisher is lost
	ended     bool // the publisher said where the stream ends
	finished  bool // and we have it all
	orphan    bool // removed, while cursors still read
	leaving   bool
	farewells int         // still to be said
	free      bool        // the publisher waits for nobody
	relevant  atomic.Bool // it has announced a topic that is wanted here
	endAt     uint64
	endedAt   Instant
	beatEvery time.Duration

	nak    nakState
	report reportState
	totals totalsState

	statusAt Instant // when the next status is due at the latest
}

func newStream(r *Receiver, h *wire.Header, packetSize int, start uint64, peer uint32, now Instant) *Stream {
	st := &Stream{
		r: r, Publisher: h.Publisher, Epoch: h.Epoch, packetSize: packetSize, peer: peer,
		start: start, next: start, tracked: start, high: start,
		heard: now, beatEvery: quietBeat, statusAt: now,
	}
	st.report.every = maxStatusEvery
	st.nak.at, st.nak.expireAt = Never, Never
	st.span = st.leastWindow() // until it has a window, it promises no more
	return st
}

// Start is the first sequence of the stream that this receiver delivers.
func (st *Stream) Start() uint64 { return st.start }

// Next is the lowest sequence neither delivered nor given up.
func (st *Stream) Next() uint64 { return st.next }

type entryState uint8

const (
	entryEmpty entryState = iota
	entryMissing
	entryHeld
	entryGone
)

// entry is what a receiver knows of a packet between next and tracked.
type entry struct {
	state entryState
	cause Cause
	tries uint8
	size  uint16
	slot  uint32
	since Instant // when it was found missing
	due   Instant // when to ask for it next
	asked Instant // when it was asked for last
}

// data takes in one data packet.
func (st *Stream) data(now Instant, b []byte, d *wire.Data, repair bool) {
	st.alive(now)
	seq := d.Seq
	if st.finished {
		st.r.stats.Duplicates++
		return
	}
	if seq == st.next && st.high == seq && st.log == nil {
		// In order, nothing missing, nobody else to keep it for: in place.
		st.next, st.tracked, st.high = seq+1, seq+1, seq+1
		st.r.stats.Packets++
		st.r.stats.Bytes += uint64(len(b))
		st.r.sink.Packet(st, d.Runs)
		if len(st.totals.pending) > 0 {
			st.totals.flush(st)
		}
		st.finish(now)
		return
	}
	if st.mem == nil && seq >= st.next+st.span && seq < st.next+uint64(st.r.cfg.WindowBytes/st.packetSize) {
		st.window() // it may hold more than the least
	}
	switch {
	case seq < st.start:
		st.r.stats.Unstarted++
	case seq < st.next:
		st.r.stats.Duplicates++
	case seq-st.next >= st.span:
		st.overrun(now, seq)
	default:
		st.accept(now, seq, b, repair)
	}
}

// accept takes a packet that lies in the window.
func (st *Stream) accept(now Instant, seq uint64, b []byte, repair bool) {
	if !st.window() {
		// No memory to wait for what is missing: it is lost, the stream goes on.
		st.skip(seq-st.next, CauseOverrun)
		st.next, st.tracked, st.high = seq+1, seq+1, max(st.high, seq+1)
		st.r.stats.Packets++
		st.r.stats.Bytes += uint64(len(b))
		st.r.sink.Packet(st, PacketData(b))
		st.finish(now)
		return
	}
	st.extend(now, seq)
	e := &st.entries[seq&st.mask]
	if seq < st.tracked && e.state != entryMissing {
		st.r.stats.Duplicates++ // held, or given up already
		return
	}
	slot, ok := st.put(b)
	if !ok {
		st.r.stats.Overrun++
		st.extend(now, seq+1) // it is known to exist: it will be asked for
		return
	}
	if seq < st.tracked {
		st.found(now, e, repair)
	} else {
		st.tracked = seq + 1
		st.high = max(st.high, seq+1)
	}
	st.r.stats.Packets++
	st.r.stats.Bytes += uint64(len(b))
	*e = entry{state: entryHeld, slot: slot, size: uint16(len(b))}
	st.advance(now)
}

// put copies a packet into a slot, if need be one that a slow cursor loses.
func (st *Stream) put(b []byte) (uint32, bool) {
	slot, ok := st.slots.Put(b)
	if !ok && st.log != nil {
		st.log.Reclaim()
		if slot, ok = st.slots.Put(b); !ok && st.log.Overtake(int(st.span/8)+1) {
			slot, ok = st.slots.Put(b)
		}
	}
	return slot, ok
}

// extend marks everything below seq that is not accounted for as missing, as
// far as the window goes.
func (st *Stream) extend(now Instant, seq uint64) {
	if seq <= st.tracked {
		return
	}
	st.high = max(st.high, seq)
	if !st.window() {
		st.skip(seq-st.next, CauseOverrun)
		return
	}
	end := min(seq, st.next+st.span)
	if end <= st.tracked {
		return
	}
	due := now.Add(st.nak.firstDelay(st.r))
	for ; st.tracked < end; st.tracked++ {
		st.entries[st.tracked&st.mask] = entry{state: entryMissing, since: now, due: due}
		st.missing++
		st.r.stats.Missing++
	}
	st.nak.at = min(st.nak.at, due)
	st.nak.expireAt = min(st.nak.expireAt, now.Add(st.r.cfg.Deadline))
	st.r.due = min(st.r.due, st.nak.at)
}

// found accounts for a missing packet that has come.
func (st *Stream) found(now Instant, e *entry, repair bool) {
	st.missing--
	if repair {
		st.r.sink.Repaired(int64(now.Sub(e.since)))
		st.r.stats.Repaired++
		if e.tries == 1 {
			st.nak.rtt.sample(now.Sub(e.asked)) // not after a second try: whose answer is it?
		}
		st.nak.repaired()
	} else {
		st.r.stats.Late++
		st.nak.late(now.Sub(e.since))
	}
	if st.missing == 0 {
		st.nak.at = Never
	}
}

// advance delivers what is in order.
func (st *Stream) advance(now Instant) {
	st.stalled = false
	for st.next < st.tracked {
		e := &st.entries[st.next&st.mask]
		if e.state == entryMissing {
			break
		}
		if len(st.totals.pending) > 0 {
			st.totals.flush(st)
		}
		if st.log != nil && !st.log.Room() {
			st.stalled = true
			return
		}
		if e.state == entryGone {
			st.skip(st.goneRun(), e.cause)
			continue
		}
		p := st.slots.Bytes(e.slot, int(e.size))
		st.r.sink.Packet(st, p[wire.DataHeaderLen:])
		if st.log != nil {
			st.log.AppendPacket(st.next, e.slot, int(e.size))
		} else {
			st.slots.Release(e.slot)
		}
		e.state = entryEmpty
		st.next++
	}
	if st.next == st.tracked && st.abandon > st.next {
		if st.log != nil && !st.log.Room() {
			st.stalled = true
			return
		}
		st.skip(st.abandon-st.next, st.abandonCause)
	}
	if st.tracked < st.high {
		st.extend(now, st.high)
	}
	st.totals.flush(st)
	st.finish(now)
}

// goneRun counts the packets given up from next on for one cause.
func (st *Stream) goneRun() uint64 {
	cause := st.entries[st.next&st.mask].cause
	n := uint64(0)
	for st.next+n < st.tracked {
		e := &st.entries[(st.next+n)&st.mask]
		if e.state != entryGone || e.cause != cause {
			break
		}
		e.state = entryEmpty
		n++
	}
	return n
}

// skip goes past n packets that are lost for good.
func (st *Stream) skip(n uint64, cause Cause) {
	if n == 0 {
		return
	}
	st.r.stats.lose(n, cause)
	st.report.lost += uint32(n)
	st.r.sink.Gap(st, st.next, n, cause)
	if st.log != nil {
		st.log.AppendGap(st.next, n, uint8(cause))
	}
	st.next += n
	st.tracked = max(st.tracked, st.next)
	st.high = max(st.high, st.next)
	st.totals.loss(st)
}

// giveUp gives up everything missing below end.
func (st *Stream) giveUp(now Instant, end uint64, cause Cause) {
	for seq := st.next; seq < min(end, st.tracked) && st.missing > 0; seq++ {
		if e := &st.entries[seq&st.mask]; e.state == entryMissing {
			e.state, e.cause = entryGone, cause
			st.missing--
		}
	}
	if end > st.tracked && end > st.abandon {
		st.abandon, st.abandonCause = end, cause
	}
	if st.missing == 0 {
		st.nak.at = Never
	}
	st.advance(now)
}

// overrun handles a packet beyond the window: this receiver has fallen behind
// so far that it must skip. A single such packet may be damage, so only a
// second one nearby is believed.
func (st *Stream) overrun(now Instant, seq uint64) {
	if seq > st.high && seq-st.high > jumpPackets {
		st.r.stats.Implausible++
		return
	}
	st.r.stats.Overrun++
	if st.far == 0 || seq+st.span < st.far || seq > st.far+st.span || seq == st.far {
		st.far = seq
		return
	}
	st.far = 0
	st.high = max(st.high, seq)
	// A quarter of the window is given up beyond what must be, so that the
	// next packets find room.
	st.giveUp(now, seq+1-st.span+st.span/4, CauseOverrun)
}

// heartbeat takes in a heartbeat.
func (st *Stream) heartbeat(now Instant, flags wire.Flags, hb *wire.Heartbeat) {
	if hb.Lead > st.high && hb.Lead-st.high > jumpPackets {
		st.r.stats.Implausible++
		return
	}
	st.r.stats.Heartbeats++
	st.alive(now)
	st.free = flags&wire.FlagFree != 0
	if hb.SentAt >= st.report.echo { // not one that was overtaken, or is replayed
		st.beatEvery = hb.Interval
		st.nak.heard(hb)
		st.report.heard(now, hb)
	}
	if !st.finished {
		if hb.Trail > st.next {
			st.extend(now, min(hb.Trail, hb.Lead))
			st.giveUp(now, hb.Trail, CauseGone)
		}
		st.extend(now, hb.Lead)
	}
	if flags&wire.FlagSolicit != 0 {
		st.report.solicited(st, now, hb)
	}
	if st.next == hb.Lead && st.report.sentNext != st.next {
		// We have everything: the publisher may rest. Not after every burst,
		// though: while data comes in small ones the cadence will do.
		st.statusAt = min(st.statusAt, max(now, st.report.sentAt.Add(minStatusEvery)))
	}
	if flags&wire.FlagEnd != 0 && !st.ended {
		st.ended, st.endAt = true, hb.Lead
		st.statusAt = now
	}
	st.finish(now)
	st.r.due = min(st.r.due, st.statusAt)
}

// follow answers to the address of the newest heartbeat from now on: a replayed
// packet may have started the stream, or the publisher's address may change.
func (st *Stream) follow(from, sentAt uint64) {
	if sentAt <= st.report.echo {
		return
	}
	peer, ok := st.r.peers.Retain(from)
	if !ok {
		return
	}
	st.r.peers.Forget(st.peer)
	st.peer = peer
}

// alive notes a sign of life.
func (st *Stream) alive(now Instant) {
	st.heard = now
	if st.down && !st.finished {
		st.down = false
		st.r.sink.StreamUp(st)
	}
}

// finish ends the stream when all of it is delivered.
func (st *Stream) finish(now Instant) {
	if !st.ended || st.finished || st.next < st.endAt || st.totals.wanted() || st.stalled {
		return
	}
	st.close(now, CauseNone)
	st.r.stats.StreamsEnded++
}

// close ends the stream for the sink and the cursors.
func (st *Stream) close(now Instant, cause Cause) {
	if st.finished {
		return
	}
	if cause != CauseNone {
		if st.giveUp(now, st.high, cause); st.finished {
			return // that was the end of it
		}
	}
	st.finished, st.down, st.endedAt, st.statusAt = true, true, now, now
	st.r.due = min(st.r.due, now)
	if left := st.high - st.next; left > 0 {
		// A cursor holds the stream up, and shall not hold up what comes next.
		st.r.stats.lose(left, cause)
		st.r.sink.Gap(st, st.next, left, cause)
	}
	st.rest()
	st.r.sink.StreamDown(st, cause)
	if st.log != nil {
		st.log.End(st.next, st.high-st.next, uint8(cause))
	}
}

// tick carries on what time brings. It reports true when the stream is to be
// removed.
func (st *Stream) tick(now Instant) bool {
	if st.finished {
		return now.Sub(max(st.endedAt, st.heard)) > endedKeep
	}
	if !st.down && now.Sub(st.heard) > st.patience() {
		st.lose(now)
	}
	st.expire(now)
	st.report.tick(st, now)
	return false
}

// patience is how long the publisher may be silent.
func (st *Stream) patience() time.Duration { return max(lostFloor, lostBeats*st.beatEvery+slowBeat) }

// lose gives the publisher up as lost. The stream stays, in case it was only
// cut off.
func (st *Stream) lose(now Instant) {
	if st.giveUp(now, st.high, CausePublisherLost); st.finished {
		return // that was the end of it
	}
	st.down = true
	st.statusAt = Never
	st.r.stats.StreamsLost++
	st.totals.publisherLost(st)
	st.rest()
	st.r.sink.StreamDown(st, CausePublisherLost)
}

// expire gives up what has been missing for longer than the deadline.
func (st *Stream) expire(now Instant) {
	if st.missing == 0 || now < st.nak.expireAt {
		return
	}
	expired, next := false, Never
	for seq, left := st.next, st.missing; seq < st.tracked && left > 0; seq++ {
		e := &st.entries[seq&st.mask]
		if e.state != entryMissing {
			continue
		}
		left--
		if dead := e.since.Add(st.r.cfg.Deadline); dead > now {
			next = min(next, dead)
			continue
		}
		e.state, e.cause = entryGone, CauseDeadline
		st.missing--
		expired = true
	}
	st.nak.expireAt = next
	if expired {
		st.advance(now)
	}
	if st.missing == 0 {
		st.nak.at = Never
	}
}

func (st *Stream) deadline() Instant {
	if st.finished {
		return min(st.statusAt, max(st.endedAt, st.heard).Add(endedKeep+1))
	}
	if st.down {
		return Never
	}
	d := min(st.statusAt, st.heard.Add(st.patience()+1))
	if st.missing > 0 {
		d = min(d, st.nak.at, st.nak.expireAt)
	}
	return d
}

// Attach adds a cursor that reads the stream from here on. With block it holds
// the publisher up when it is slow, as far as flow control goes; without, it
// is overtaken. It returns nil when there is no memory for a window.
func (st *Stream) Attach(block bool) *ring.Cursor {
	if !st.window() {
		return nil
	}
	if st.log == nil {
		st.log = ring.NewLog(st.slots, nextPow2(int(st.span)+64))
	}
	return st.log.Attach(block)
}

// Detach removes a cursor.
func (st *Stream) Detach(c *ring.Cursor) {
	st.log.Detach(c)
	if st.log.Cursors() == 0 {
		st.log = nil
		if st.orphan {
			st.freeWindow()
		}
	}
}

// PacketData returns the runs of the packet that a cursor has leased.
func PacketData(leased []byte) []byte { return leased[wire.DataHeaderLen:] }

// Relevant reports whether the publisher has announced a topic that is wanted
// here. A publisher announces all its topics when it ends. Any goroutine may
// ask.
func (st *Stream) Relevant() bool { return st.relevant.Load() }

// Free reports whether the publisher waits for nobody: a cursor that is pinned
// would hold up its neighbours and not the publisher.
func (st *Stream) Free() bool { return st.free }

// Squeezed reports whether slow cursors have cost the stream half its window
// or more. The publisher must be told when they catch up (Receiver.Resume).
func (st *Stream) Squeezed() bool {
	return st.stalled || st.log != nil && uint64(st.log.Backlog()) >= st.span/2
}

// Span is how many packets fit the stream's window.
func (st *Stream) Span() int { return int(st.span) }

// WantTotals asks the publisher how far each topic has come: after a cursor
// was overtaken. Where nobody will answer, End or a lost publisher says so.
func (st *Stream) WantTotals() {
	switch {
	case st.finished:
	case st.down:
		st.totals.publisherLost(st)
	default:
		st.totals.loss(st)
	}
}

// Stalled reports whether a cursor holds the stream up.
func (st *Stream) Stalled() bool { return st.stalled }

func (st *Stream) cursors() int {
	if st.log == nil {
		return 0
	}
	return st.log.Cursors()
}

// leastWindow is the window that every stream can count on, in packets: half of
// the group's memory is kept for that, shared by as many streams as there may be.
func (st *Stream) leastWindow() uint64 {
	c := &st.r.cfg
	return uint64(max(min(c.MemoryBytes/(2*c.MaxStreams), c.WindowBytes)/st.packetSize, minWindow))
}

// windowPackets is how many packets the stream's window may hold now: what it
// can count on, and a quarter of what is left of the rest, so that the first
// streams get the most and no later one nothing.
func (st *Stream) windowPackets() uint64 {
	c := &st.r.cfg
	least := int(st.leastWindow()) * st.packetSize
	left := c.MemoryBytes - st.r.memory
	shared := left - least*max(0, c.MaxStreams-st.r.windows)
	bytes := min(c.WindowBytes, left, least+max(0, shared/4))
	return uint64(max(0, bytes/st.packetSize))
}

// window makes the window's memory at first need.
func (st *Stream) window() bool {
	if st.mem != nil {
		return true
	}
	span := st.windowPackets()
	bytes := int(span) * st.packetSize
	if span < minWindow {
		return false
	}
	mem, err := st.r.cfg.Memory.Alloc(bytes)
	if err != nil {
		return false
	}
	st.mem, st.span = mem, span
	st.r.memory += bytes
	st.r.windows++
	st.slots = ring.NewSlots(mem, st.packetSize)
	st.entries = make([]entry, nextPow2(int(span)))
	st.mask = uint64(len(st.entries) - 1)
	return true
}

// rest gives the window of a stream back that is down and holds nothing:
// publishers that went away shall not take memory from those that come.
func (st *Stream) rest() {
	if st.log == nil && st.next == st.tracked {
		st.freeWindow()
	}
}

func (st *Stream) freeWindow() {
	if st.mem == nil {
		return
	}
	st.r.memory -= int(st.span) * st.packetSize
	st.r.windows--
	st.r.cfg.Memory.Free(st.mem)
	st.mem, st.slots, st.log, st.entries = nil, nil, nil, nil
}

func nextPow2(n int) int { return 1 << bits.Len(uint(n-1)) }

func (s *ReceiverStats) lose(n uint64, cause Cause) {
	s.Lost += n
	switch cause {
	case CauseGone:
		s.LostGone += n
	case CauseDeadline:
		s.LostDeadline += n
	case CauseOverrun:
		s.LostOverrun += n
	case CausePublisherLost, CauseRestart:
		s.LostEnd += n
	}
}

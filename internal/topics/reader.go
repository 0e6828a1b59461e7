package topics

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/ring"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Reader turns the packets and gaps of one stream, in order, into messages and gaps of the topics that its user wants.
// Feed it with Take and TakeNote, or with Packet, Skip, Listed and End; after each, call Next until it returns false.
//
// Message numbers make a gap exact: if the next message of a topic, or its next topic run, has a number that is too
// high, the messages in between are lost.
type Reader struct {
	topics ring.Map[Track]
	max    int    // longest message, in bytes
	start  uint64 // first sequence that it may have

	readerLosses
	fresh bool // at sequence 0, where each topic begins with number 0

	runs     []byte // rest of the packet
	stepHint int    // wire.Data.Step of the packet, if known, which saves a calculation
	readerRun
	readerNotes

	partial []byte // fragments so far
	expect  int    // size of the message; 0: no message is open
	pTrack  *Track
	pNumber uint64
	broken  events.Cause // why the message of the latest fragment is incomplete
	unused  int          // packets since the last fragment
	hold    Item         // to be delivered after the gap before it

	at     uint64 // number of packets so far
	guard  numberGuard
	tally  Tally // nil: nothing is counted
	faults readerFaults
	trust  readerTrust
}

// readerRun is the current run.
type readerRun struct {
	track *Track // nil: none
	body  []byte // rest of the run
	step  int    // from message to message in it, see wire.Step
	asks  bool   // it has requests
}

// readerNotes are reported after the packet's runs.
type readerNotes struct {
	ended bool         // the stream has ended
	blind events.Cause // why topics that a pattern may match are missing; CauseNone: none are
	state *stateReader // nil: no state is read
}

// NewReader returns a reader of a stream that the receiver has from sequence start on, for messages of up to maxMessage
// bytes.
func NewReader(start uint64, maxMessage int) *Reader {
	return &Reader{max: maxMessage, start: start, fresh: start == 0}
}

// Take passes the stream's next event to the reader; after it, call Next until it returns false. Until then the memory
// of an EventPacket is in use.
func (r *Reader) Take(e *reliable.Event) {
	switch e.Kind {
	case reliable.EventPacket:
		r.Packet(reliable.PacketData(e.Packet))
		r.stepHint = e.Step
	case reliable.EventGap:
		r.Skip(e.Seq, e.Count, e.Cause)
	case reliable.EventDown:
		r.End()
	case reliable.EventEnd:
		if e.Count > 0 {
			r.Skip(e.Seq, e.Count, e.LostBy())
		}
		r.End()
	}
}

// TakeNote is Take for an event of the message layer.
func (r *Reader) TakeNote(e *Event) {
	switch e.Kind {
	case EventListed:
		r.Listed(e.Listing)
	case EventState:
		r.takeState(e.Runs)
	case EventStateEnd:
		r.endState(e.Seq, e.State, e.Topics)
		if r.state != nil {
			r.state.room = e.Room
		}
	}
}

// Packet begins the next packet, which has these runs.
func (r *Reader) Packet(runs []byte) {
	r.runs, r.stepHint, r.track, r.fresh = runs, 0, nil, false
	r.at++
	r.rejudge()
}

// Blind says that the reader, which wants topics by a pattern, may miss topics from now on, for cause.
func (r *Reader) Blind(cause events.Cause) { r.blind = cause }

// Skip records a permanent loss of that many packets, the first of them seq.
func (r *Reader) Skip(seq, packets uint64, cause events.Cause) {
	r.lose(seq, packets, cause)
	r.SkipState()
	r.expect, r.broken, r.fresh = 0, cause, false // a message that lacks a fragment is lost
}

// Missed is Skip for packets before sequence seq that the stream has delivered and only this reader has missed.
func (r *Reader) Missed(seq, packets uint64, cause events.Cause) {
	packets = min(packets, seq)
	r.Skip(seq-packets, packets, cause)
}

// Retain moves the rest of the packet to the end of buf, and returns buf. The packet's memory is then not needed any
// more.
func (r *Reader) Retain(buf []byte) []byte {
	at := len(buf)
	buf = append(buf, r.body...)
	runs := len(buf)
	buf = append(buf, r.runs...)
	r.body, r.runs = buf[at:runs:runs], buf[runs:]
	r.hold.Data = slices.Clone(r.hold.Data)
	if r.state != nil {
		r.state.runs = slices.Clone(r.state.runs)
	}
	return buf
}

// End records the end of the stream.
func (r *Reader) End() { r.ended = true }

// Next fills in it with the next message or gap. It returns false if there is none.
func (r *Reader) Next(it *Item) bool {
	for {
		if r.track != nil {
			if r.message(it) {
				return true
			}
			r.track = nil
		}
		if r.hold.Topic != nil {
			*it, r.hold = r.hold, Item{}
			return true
		}
		run, rest, ok := wire.NextRun(r.runs)
		if !ok {
			r.runs = nil
			break
		}
		r.runs = rest
		t := r.topics.Get(run.Topic)
		if t != nil && run.Kind == wire.RunTopic {
			if r.stated(t, &run, it) {
				return true
			}
			continue
		}
		if t == nil || run.Kind >= wire.RunTopic {
			if run.Kind < wire.RunTopic && r.tally != nil {
				r.tally.Unwanted(run.Topic, wire.RunHeaderLen+len(run.Body))
			}
			continue
		}
		if t.refused {
			r.refuse(t, &run)
			continue
		}
		if r.open(t, run, it) {
			return true
		}
	}
	return r.rest(it)
}

// open begins a run of a wanted topic. It returns true if it filled in it. docs/protocol §9.2, §10.5.
func (r *Reader) open(t *Track, run wire.Run, it *Item) bool {
	if t.from > 0 && !t.reached(&run) {
		return false
	}
	if !t.known && t.losses == r.losses && run.Continues() {
		return false // it began before the topic was wanted; one that may have begun in lost packets is a gap
	}
	if t.known && run.Number < t.next {
		r.drop() // a number that was used already: a fault of the publisher
		r.fault(events.FaultNumbers, t)
		return false
	}
	wrong := r.misnumbered(t, run.Number)
	if wrong {
		r.fault(events.FaultHole, t)
		if !plausibleHole(run.Number-t.next, r.lostSince(t)) && !r.guard.confirmed(t.ID, run.Number, r.at) {
			r.drop()
			return false
		}
	}
	gap := r.gapBefore(t, run.Number, it)
	if wrong {
		it.Cause = events.CauseMisnumbered
	}
	t.known, t.next, t.losses, t.from = true, run.Number, r.losses, 0
	if run.Kind == wire.RunMessages {
		r.begin(t, run.Body)
		r.asks = run.Flags&wire.RunFlagRequest != 0
		return gap
	}
	if r.fragment(t, run, &r.hold) {
		r.hold.Request = run.Flags&wire.RunFlagRequest != 0 && !r.hold.Gap()
		switch {
		case !gap:
			*it, r.hold = r.hold, Item{}
			return true
		case r.hold.Gap() && !it.Unknown && r.hold.Cause == it.Cause: // one gap with the messages before it
			it.Lost += r.hold.Lost
			r.hold = Item{}
		}
	}
	return gap
}

// gapBefore fills in it with the gap of topic t before message number, and reports whether there is one.
func (r *Reader) gapBefore(t *Track, number uint64, it *Item) bool {
	switch {
	case t.from > 0:
		return r.gapFrom(t, number, it)
	case t.known && wire.Returns(t.next, number): // the numbers between were not used
		if !r.skipped || t.losses == r.losses {
			return false
		}
		*it = Item{Topic: t, Number: t.next, Unknown: true, Cause: r.cause}
	case t.known && number > t.next:
		*it = Item{Topic: t, Number: t.next, Lost: number - t.next, Cause: r.cause}
	case !t.known && r.skipped && number > 0:
		*it = Item{Topic: t, Number: number, Unknown: true, Cause: r.cause}
	default:
		return false
	}
	return true
}

// message fills in it with the next message of the current run.
func (r *Reader) message(it *Item) bool {
	m, rest, ok := wire.NextMessage(r.body)
	if !ok {
		if len(r.body) > 0 {
			r.drop()
		}
		return false
	}
	t := r.track
	r.body = rest
	if len(m) > r.max {
		*it = Item{Topic: t, Number: t.next, Lost: 1, Cause: events.CauseTooLarge}
		t.next++
		return true
	}
	it.Topic, it.Number, it.Data = t, t.next, m
	it.Lost, it.Unknown, it.Cause, it.Request, it.State = 0, false, events.CauseNone, r.asks, reliable.StateOfNone
	t.next++
	return true
}

// Through reports whether nothing is left of the packet, so that Next need not be called.
func (r *Reader) Through() bool {
	if len(r.runs) > 0 && wire.RunKind(r.runs[0]) == wire.RunPadding {
		r.runs = nil // before its memory has another packet
	}
	return len(r.runs) == 0 && (r.track == nil || len(r.body) == 0) && !r.after()
}

// after reports whether something remains to be reported, or freed, after a packet's runs.
func (r *Reader) after() bool {
	return r.hold.Topic != nil || r.state != nil || r.blind != events.CauseNone ||
		r.ended || cap(r.partial) > keptPartial
}

// follows returns the topic if message number follows the delivered ones with nothing to report before it. The caller
// then delivers it.
func (r *Reader) follows(topic, number uint64) *Track {
	t := r.topics.Get(topic)
	if t == nil || !t.known || number != t.next || r.hold.Topic != nil {
		return nil
	}
	t.losses = r.losses
	return t
}

func (r *Reader) begin(t *Track, body []byte) {
	r.track, r.body, r.asks = t, body, false
	if r.step = r.stepHint; r.step == 0 {
		r.step = wire.Step(body)
	}
	if r.step > wire.MessageHeaderLen+r.max {
		r.step = 0
	}
}

// rest delivers what is left after the packet's runs.
func (r *Reader) rest(it *Item) bool {
	if cap(r.partial) > keptPartial && r.expect == 0 {
		if r.unused++; r.unused > unusedPackets {
			r.partial = nil
		}
	}
	if r.state != nil && r.nextState(it) {
		return true
	}
	if r.blind != events.CauseNone {
		*it = Item{Unknown: true, Cause: r.blind}
		r.blind = events.CauseNone
		return true
	}
	if r.ended && (r.skipped || r.unbegun()) {
		// It can no longer be known how many messages each topic lost.
		*it = Item{Unknown: true, Cause: events.CauseGone}
		if r.skipped {
			it.Cause = r.cause
		}
		r.skipped, r.numbered, r.ended = false, false, false
		return true
	}
	r.ended = false
	return false
}

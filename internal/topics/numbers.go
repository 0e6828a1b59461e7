package topics

import (
	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Losses that message numbers and topic runs show.

// readerLosses are a reader's losses.
type readerLosses struct {
	skipped bool         // packets were lost, and it is not known for each topic how many messages
	cause   events.Cause // of the last loss
	losses  uint64       // lost packets so far
	first   uint64       // with skipped: first of the lost packets
	behind  uint64       // one beyond the last lost packet

	numbered bool // topics begin with given messages (From), and none of the stream's topics were listed since
}

// lose records a permanent loss.
func (x *readerLosses) lose(seq, packets uint64, cause events.Cause) {
	if !x.skipped || seq < x.first {
		x.first = seq
	}
	x.skipped, x.cause, x.behind = true, cause, max(x.behind, seq+packets)
	x.losses += packets
}

// LostFrom is the first packet of the losses of which the extent is not known for each topic; behind: there are none.
func (r *Reader) LostFrom(behind uint64) uint64 {
	if r.skipped {
		return r.first
	}
	return behind
}

// Listed says that the packets so far have topic runs of all topics with messages in the lost packets of a listing.
func (r *Reader) Listed(x Listing) {
	if r.skipped && x.Since <= r.first && r.behind <= x.Begun {
		if r.skipped = false; r.first < x.Forgotten {
			r.blind = r.cause
		}
	}
	if x.Since <= r.start {
		r.numbered = r.numbered && r.skipped
	}
}

// stated processes a topic run. It returns true if that shows a gap, which it fills in.
func (r *Reader) stated(t *Track, run *wire.Run, it *Item) bool {
	if !t.refused && t.Name != string(run.Body) {
		if other, ok := pattern.NameOf(t.ID, run.Body); ok {
			r.collide(t, other)
		}
		return false
	}
	if t.refused || t.known && run.Number < t.next || run.Number+1 < t.from {
		return false
	}
	gap := r.gapBefore(t, run.Number, it)
	returns := wire.Returns(t.next, run.Number) && (run.Number%wire.Returning == 0 || t.losses != r.losses)
	if !returns && r.misnumbered(t, run.Number) {
		r.fault(events.FaultAnnounced, t)
		it.Cause = events.CauseMisnumbered
		if !plausibleHole(run.Number-t.next, r.lostSince(t)) {
			*it = Item{Topic: t, Number: t.next, Unknown: true, Cause: events.CauseMisnumbered}
			return true // the number counts for nothing else
		}
	}
	t.known, t.next, t.losses, t.from = true, run.Number, r.losses, 0
	return gap
}

// collide drops a topic: the publisher has another one with the same id.
func (r *Reader) collide(t *Track, other string) {
	r.Drop(t.ID)
	if r.faults.collides != nil {
		r.faults.collides(&events.TopicCollisionError{ID: events.ID(t.ID), Known: t.Name, Other: other})
	}
}

// lostSince returns the number of packets lost since the last message or topic run of topic t.
func (r *Reader) lostSince(t *Track) uint64 { return r.losses - t.losses }

// misnumbered reports whether more messages of topic t are missing before number than fit in the lost packets. If the
// topic returns, its topic run must be missing. docs/protocol §10.3, §10.7, §10.9.
func (r *Reader) misnumbered(t *Track, number uint64) bool {
	if !t.known || number <= t.next {
		return false
	}
	return t.losses == r.losses || !wire.Returns(t.next, number) && !plausibleHole(number-t.next, r.lostSince(t))
}

// numberGuard checks numbers beyond the next one of their topic. A damaged, replayed or forged packet must not make a
// reader report more lost messages than were sent, or drop true ones as repeated. docs/protocol §13, §19.
//
//	┌──────┐   a packet has an implausible number       ┌──────────┐
//	│ sure │ ─────────────────────────────────────────► │ suspects │ ──┐ another one that
//	│      │ ◄───────────────────────────────────────── │          │ ◄─┘ does not follow it
//	└──────┘   a later packet has one that follows it   └──────────┘
type numberGuard struct {
	topic, number uint64
	packet        uint64 // number of the reader's packet that had it; 0: sure
}

// maxMessages is the largest number of messages in a packet: empty ones, in the largest packet.
const maxMessages = (wire.MaxPacket - wire.DataHeaderLen - wire.RunHeaderLen) / wire.MessageHeaderLen

// plausibleHole reports whether the missing messages of a topic fit in the lost packets and one more
// (docs/protocol §10.7).
func plausibleHole(messages, packets uint64) bool { return (messages-1)/maxMessages <= packets }

// confirmed reports whether an implausible number follows that of an earlier packet. Then the publisher does use such
// numbers.
func (g *numberGuard) confirmed(topic, number, packet uint64) bool {
	follows := g.packet != 0 && g.topic == topic && packet > g.packet &&
		number > g.number && plausibleHole(number-g.number, packet-g.packet-1)
	if follows {
		*g = numberGuard{}
	} else if packet != g.packet {
		*g = numberGuard{topic, number, packet}
	}
	return follows
}

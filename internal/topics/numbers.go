package topics

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// Losses that message numbers and the publisher's totals show.

// readerLosses are a reader's losses, and the totals that it has read since.
type readerLosses struct {
	skipped bool         // packets were lost, and it is not known for each topic how many messages
	cause   events.Cause // of the last loss
	losses  uint64       // lost packets so far, at most
	totals  uint32       // consecutive totals since the last loss, or notAll
	missed  uint64       // the reader itself has missed packets before this sequence

	numbered bool // topics begin with given messages (From), and not all totals were read since
}

// Total records how many messages of a topic had been published at this sequence of the stream.
func (r *Reader) Total(t reliable.TopicTotal) {
	switch {
	case t.Index == 0 && t.AsOf >= r.missed:
		r.totals = 1
	case t.Index == r.totals:
		r.totals++
	default:
		r.totals = notAll
	}
	switch {
	case t.Lost != events.CauseNone:
		r.ended = true
	case t.Complete:
		if r.totals != notAll {
			r.skipped, r.numbered = false, false
		}
	default:
		r.total = &t
	}
}

// notAll says that totals were missed, or that the first was read before the last loss or is older than what the reader
// itself has missed.
const notAll = ^uint32(0)

// unsure, as Track.losses, says that the topic's next number is known from a total only, which may be older than the
// subscription.
const unsure = ^uint64(0)

// settle applies the total. It returns true if that shows a gap, which it fills in.
func (r *Reader) settle(it *Item) bool {
	x := *r.total
	r.total = nil
	t := r.topics.Get(x.ID)
	if t == nil || t.refused || t.known && x.Next <= t.next || x.Next < t.from {
		return false
	}
	gap := r.gapBefore(t, x.Next, it)
	if r.misnumbered(t, x.Next) {
		r.fault(events.FaultAnnounced, t)
		it.Cause = events.CauseMisnumbered
		if !plausibleHole(x.Next-t.next, r.lostSince(t)) {
			*it = Item{Topic: t, Number: t.next, Unknown: true, Cause: events.CauseMisnumbered}
			return true // the total counts for nothing else
		}
	}
	if !t.known {
		t.losses = unsure // the total may be older than this reader
	}
	t.known, t.next, t.from = true, max(t.next, x.Next), 0
	t.countForeign()
	return gap
}

// countForeign counts a message that had begun when the topic was wanted, if a total did not count it: it is not
// missing. A total that counts it shows that it is complete.
func (t *Track) countForeign() {
	switch {
	case !t.known || t.foreign == 0:
	case t.next+1 == t.foreign:
		t.next = t.foreign
	case t.next >= t.foreign:
		t.foreign, t.begun = 0, false
	}
}

// lostSince returns the largest number of packets that may have been lost since the last message of topic t.
func (r *Reader) lostSince(t *Track) uint64 {
	if t.losses == unsure {
		return r.losses
	}
	return r.losses - t.losses
}

// misnumbered reports whether more messages of topic t are missing before number than fit in the lost packets.
// docs/protocol §10.3, §10.7.
func (r *Reader) misnumbered(t *Track, number uint64) bool {
	if !t.known || number <= t.next {
		return false
	}
	return t.losses == r.losses || !plausibleHole(number-t.next, r.lostSince(t))
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

// unnamedTopics are the topics that had messages before their name was known: if one is wanted later, that is why its
// first messages are missing.
type unnamedTopics struct {
	ids    map[uint64]events.Cause // why the name was unknown
	count  uint64                  // Event.Count of the latest EventUnnamed
	missed bool                    // events were missed, so it may be any topic
}

// maxUnnamed bounds the ids that a reader remembers. A packet has fewer.
const maxUnnamed = 1 << 12

func (n *unnamedTopics) add(id uint64, cause events.Cause) {
	if n.ids == nil || len(n.ids) >= maxUnnamed {
		n.missed = n.missed || n.ids != nil
		n.ids = make(map[uint64]events.Cause)
	}
	n.ids[id] = cause
}

// named returns why messages of a topic may have passed before its name was known; CauseNone: none have.
func (n *unnamedTopics) named(id uint64) events.Cause {
	cause := n.ids[id]
	if delete(n.ids, id); cause == events.CauseNone && n.missed {
		return events.CauseUnnamed
	}
	return cause
}

// Unnamed records that messages of a topic with an unknown name follow.
func (r *Reader) Unnamed(e *reliable.Event) {
	r.unnamed.count = max(r.unnamed.count, e.Count)
	r.unnamed.add(e.Topic, e.Cause)
}

// Overlooked is for a reader of patterns that may have missed events. unnamed is how many EventUnnamed the stream has
// delivered (Stream.Unnamed): if the reader has not read all, messages may be missing.
func (r *Reader) Overlooked(unnamed uint64) {
	if unnamed > r.unnamed.count {
		r.unnamed.count, r.unnamed.missed, r.blind = unnamed, true, events.CauseUnnamed
	}
}

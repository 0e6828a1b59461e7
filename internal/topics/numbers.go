package topics

import (
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// What message numbers, and the publisher's totals of them, show to be lost.

// readerLosses are what a reader has lost, and which totals it has read since.
type readerLosses struct {
	skipped bool         // packets were lost, and it is not known of every topic how much
	cause   events.Cause // of the last loss
	losses  uint64       // packets lost so far, at most
	totals  uint32       // totals in a row since, or notAll
	missed  uint64       // the reader itself has missed packets before this sequence

	numbered bool // topics begin with certain messages (From), and not all totals were read since
}

// Total notes how far a topic had come at this sequence of the stream.
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

// notAll: totals were missed, or the first was read before the last loss, or is as of before what
// the reader itself has missed.
const notAll = ^uint32(0)

// unsure, as Track.losses, marks a topic with a next number that is known from a total only, which may
// be older than the subscription.
const unsure = ^uint64(0)

// settle takes in the total. It reports true when it filled it with the gap that the total shows.
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
			return true // what it says counts for nothing else
		}
	}
	if !t.known {
		t.losses = unsure // the total may be of before we began
	}
	t.known, t.next, t.from = true, max(t.next, x.Next), 0
	t.countForeign()
	return gap
}

// countForeign counts a message that had begun when the topic was wanted, where a total did
// not: it is not missing. One that counts it says that it is complete.
func (t *Track) countForeign() {
	switch {
	case !t.known || t.foreign == 0:
	case t.next+1 == t.foreign:
		t.next = t.foreign
	case t.next >= t.foreign:
		t.foreign, t.begun = 0, false
	}
}

// lostSince is how many packets were lost since the last message of topic t, at most.
func (r *Reader) lostSince(t *Track) uint64 {
	if t.losses == unsure {
		return r.losses
	}
	return r.losses - t.losses
}

// misnumbered reports whether more messages of topic t are missing before number than the lost
// packets can have held. docs/protocol §10.3, §10.7.
func (r *Reader) misnumbered(t *Track, number uint64) bool {
	if !t.known || number <= t.next {
		return false
	}
	return t.losses == r.losses || !plausibleHole(number-t.next, r.lostSince(t))
}

package topics

import (
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// fragment adds a fragment. After the last one it returns true and fills in it: with the message, or with a gap if the
// message is too long or incomplete. docs/protocol §10.2.
func (r *Reader) fragment(t *Track, run wire.Run, it *Item) bool {
	f, err := wire.ParseFragment(run.Body)
	if err != nil {
		r.drop()
		return false
	}
	r.unused = 0
	last := f.Offset+len(f.Bytes) == f.Total
	switch {
	case f.Total > r.max:
		r.expect, r.broken = 0, events.CauseTooLarge
	case f.Offset == 0:
		r.partial, r.expect, r.pTrack, r.pNumber, r.broken = r.partial[:0], f.Total, t, run.Number, events.CauseNone
	case r.expect == 0 && r.broken != events.CauseNone: // its beginning was lost
	case r.expect == 0 || r.pTrack != t || r.pNumber != run.Number || f.Total != r.expect || f.Offset != len(r.partial):
		r.expect, r.broken = 0, events.CauseMisnumbered
		r.fault(events.FaultFragments, t)
	}
	if r.expect == 0 {
		if last {
			// Reported with the last fragment: no later message may ever arrive, and a total that arrived in between
			// does not count this message.
			*it = Item{Topic: t, Number: run.Number, Lost: 1, Cause: r.broken}
			t.next, r.broken = run.Number+1, events.CauseNone
		}
		return last
	}
	r.partial = append(r.partial, f.Bytes...)
	if len(r.partial) < f.Total {
		return false
	}
	r.expect = 0
	*it = Item{Topic: t, Number: run.Number, Data: r.partial}
	t.next = run.Number + 1
	return true
}

// passes reports whether to ignore a fragment that is not the first of its message: the reader has had no message of
// topic t, so this one had begun before the topic was wanted. A total is no message. docs/protocol §10.5.
//
// A message that may have begun in lost packets is not ignored: its last fragment reports it. Only losses since the
// latest fragmented message count, because the fragments of a message are consecutive, and only losses since the topic
// was wanted.
func (r *Reader) passes(t *Track, run *wire.Run) bool {
	switch {
	case run.Number+1 == t.foreign:
	case t.from > 0:
		return true // the next message shows the gap exactly
	case t.known && t.losses != unsure, r.broken != events.CauseNone && t.since != r.losses:
		return false
	default:
		t.foreign, t.begun, r.foreign = run.Number+1, true, true
		t.countForeign()
	}
	if f, err := wire.ParseFragment(run.Body); err == nil && f.Offset+len(f.Bytes) == f.Total && t.known {
		t.foreign, t.begun = 0, false // the message is complete: its number does not come again
	}
	return true
}

// A reader frees memory for fragments of more than keptPartial bytes when unusedPackets in a row had none, so that one
// large message does not hold memory permanently.
const (
	keptPartial   = 1 << 20
	unusedPackets = 256
)

package topics

import (
	"cmp"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Topics that are to begin with a message of a certain number. docs/protocol §9.8.

// From makes a wanted topic, of which nothing was delivered yet, begin with message number.
// What is before it is passed over; what is missing from it on, because the stream was
// joined too late for that, is a gap. A topic that is refused begins as trust.go says.
func (r *Reader) From(id, number uint64) {
	r.numbered = true
	r.beginWith(id, number)
}

// beginWith is From of a topic of which it is known that nothing is missing from message number on.
func (r *Reader) beginWith(id, number uint64) {
	t := r.topics.Get(id)
	if t == nil || t.refused {
		return
	}
	t.known, t.from, t.since = false, number+1, unsure
	if r.expect == 0 && r.broken == events.CauseNone {
		r.broken = events.CauseGone // a message of it that has begun is missing
	}
}

// unbegun reports whether it is unknown how much is missing of a topic that is to begin with a
// certain message: nothing of it arrived, and not all totals were read.
func (r *Reader) unbegun() (some bool) {
	if r.numbered {
		r.topics.All(func(_ uint64, t *Track) { some = some || t.from > 0 })
	}
	return some
}

// reached reports whether something of the run is not before the message that the topic is to
// begin with, and takes away what is.
func (t *Track) reached(run *wire.Run) bool {
	begin := t.from - 1
	if run.Number >= begin {
		return true
	}
	if run.Kind != wire.RunMessages {
		return false
	}
	for ; run.Number < begin; run.Number++ {
		_, rest, ok := wire.NextMessage(run.Body)
		if !ok {
			return false
		}
		run.Body = rest
	}
	return len(run.Body) > 0
}

// gapFrom fills it with what is missing of a topic that is to begin with a certain message,
// if its first message that is there is another one.
func (r *Reader) gapFrom(t *Track, number uint64, it *Item) bool {
	begin := t.from - 1
	if number <= begin {
		return false
	}
	cause := cmp.Or(t.unnamed, events.CauseGone)
	if r.skipped && t.unnamed == events.CauseNone {
		cause = r.cause
	}
	*it = Item{Topic: t, Number: begin, Lost: number - begin, Cause: cause}
	return true
}

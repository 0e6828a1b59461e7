package topics

import (
	"cmp"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Topics that begin with a message of a given number. docs/protocol §9.8.

// From makes a wanted topic, of which nothing was delivered yet, begin with message number. Earlier messages are
// ignored. Later ones that are missing, because the stream was joined too late, are a gap. A refused topic begins as
// trust.go says.
func (r *Reader) From(id, number uint64) {
	r.numbered = true
	r.beginWith(id, number)
}

// beginWith is From for a topic that is known to lack nothing from message number on.
func (r *Reader) beginWith(id, number uint64) {
	t := r.topics.Get(id)
	if t == nil || t.refused {
		return
	}
	t.known, t.from, t.since = false, number+1, unsure
	if r.expect == 0 && r.broken == events.CauseNone {
		r.broken = events.CauseGone // the beginning of its open message is missing
	}
}

// unbegun reports whether some topic that begins with a given message lacks an unknown number of messages: none of it
// arrived, and not all totals were read.
func (r *Reader) unbegun() (some bool) {
	if r.numbered {
		r.topics.All(func(_ uint64, t *Track) { some = some || t.from > 0 })
	}
	return some
}

// reached reports whether the run reaches the message that the topic begins with, and removes earlier messages from it.
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

// gapFrom fills in it with the gap of a topic that begins with a given message, if its first present message is a later
// one.
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

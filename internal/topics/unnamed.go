package topics

import (
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// unnamedTopics is what a Reader knows of topics that had messages before their name was known:
// when such a topic is wanted later, that is why its first messages are missing.
type unnamedTopics struct {
	ids    map[uint64]events.Cause // why it had none
	count  uint64                  // Event.Count of the latest EventUnnamed
	missed bool                    // some were overlooked: it may be any topic
}

// maxUnnamed bounds the ids that a reader remembers. One packet has fewer.
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

// Unnamed records that messages of a topic follow that has no known name.
func (r *Reader) Unnamed(e *reliable.Event) {
	r.unnamed.count = max(r.unnamed.count, e.Count)
	r.unnamed.add(e.Topic, e.Cause)
}

// Overlooked says to a reader of patterns that events may have been left out, and how many EventUnnamed the stream has
// delivered (Stream.Unnamed): if it has not read all of them, messages may be missing.
func (r *Reader) Overlooked(unnamed uint64) {
	if unnamed > r.unnamed.count {
		r.unnamed.count, r.unnamed.missed, r.blind = unnamed, true, events.CauseUnnamed
	}
}

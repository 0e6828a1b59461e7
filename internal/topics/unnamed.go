package topics

import (
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

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

package topics

import (
	"fmt"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Topic is one topic of a Sender's stream.
type Topic struct {
	ID        uint64
	Name      string
	next      uint64 // number of the next message to be assigned
	last      uint64 // sequence of its last message, or at first of its name
	named     uint64 // sequence of the first packet with its name
	asked     bool   // its name is put into the stream before its first message, because members are asked for it
	naming    naming
	delivered delivered
}

// Next is the number that the topic's next message will get.
func (t *Topic) Next() uint64 { return t.next }

// topics is a publisher's list of topics, which only grows.
type topics struct {
	byID map[uint64]*Topic
	list []*Topic
}

// Topic returns the topic of that name, adding it at first use. It may return a *TopicCollisionError.
func (s *Sender) Topic(name string) (*Topic, error) {
	if name == "" || len(name) > wire.MaxTopicName {
		return nil, fmt.Errorf("topic name of %d bytes is not within 1..%d", len(name), wire.MaxTopicName)
	}
	id := wire.TopicID(name)
	if t := s.topics.byID[id]; t != nil {
		if t.Name != name {
			return nil, &events.TopicCollisionError{ID: events.ID(id), Known: t.Name, Other: name}
		}
		return t, nil
	}
	t := &Topic{ID: id, Name: name}
	if s.topics.byID == nil {
		s.topics.byID = make(map[uint64]*Topic)
	}
	s.topics.byID[id] = t
	s.topics.list = append(s.topics.list, t)
	return t, nil
}

// Topics is the number of topics of the stream.
func (s *Sender) Topics() int { return len(s.topics.list) }

// TopicsFrom returns up to n topics of the stream, from index from on, in the order in which they were added. The slice
// must not be changed; its elements never move.
func (s *Sender) TopicsFrom(from, n int) []*Topic {
	list := s.topics.list
	from = min(from, len(list))
	return list[from:min(len(list), from+n)]
}

// naming tracks whether receivers can know a topic's name. They learn it from a topic run, which precedes the topic's
// first message (docs/protocol §10.8).
//
// Writers fill their packets independently, and the order of their packets is known only when these get their
// sequences. So each Writer puts the name before its own first message of the topic, until a packet with the name has
// its sequence.
type naming struct{ by atomic.Pointer[Writer] }

// namedBefore marks a topic with a name in a packet with a sequence.
var namedBefore = new(Writer)

// missing reports whether w must put the name before its next message. If writers alternate it may say so again:
// receivers ignore repeated names.
func (n *naming) missing(w *Writer) bool {
	by := n.by.Load()
	return by != namedBefore && by != w
}

// name adds the name of t to the open packet, or to the next one. It reports false if there is no room.
func (w *Writer) name(t *Topic) bool {
	n := wire.RunHeaderLen + len(t.Name)
	if !w.openRun(n) {
		return false
	}
	wire.PutTopicRun(w.packet[w.off:w.off+n], t.ID, t.Name)
	w.runs = append(w.runs, runRef{topic: t, off: w.at(), name: true})
	w.off += n
	w.endTail()
	if by := t.naming.by.Load(); by != namedBefore {
		t.naming.by.CompareAndSwap(by, w)
	}
	return true
}

// nameAssigned records that packet seq has the topic's name.
func (t *Topic) nameAssigned(seq uint64) {
	if t.naming.by.Load() != namedBefore {
		t.named, t.last = seq, seq
		t.naming.by.Store(namedBefore)
	}
}

// namedBefore reports whether a packet before sequence seq has the topic's name. nil: there is no such topic.
func (t *Topic) namedBefore(seq uint64) bool {
	return t == nil || t.naming.by.Load() == namedBefore && t.named < seq
}

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
	last      uint64 // sequence of its last message, or of a name that receivers may not have had
	named     uint64 // sequence of the first packet with its name
	said      bool   // there is one
	asked     bool   // its name is put into the stream before its first message, because members are asked for it
	naming    naming
	stated    uint64 // topics.runs with that name, or when the topic was added
	users     int    // publishers that have it open
	delivered delivered
}

// Next is the number that the topic's next message will get.
func (t *Topic) Next() uint64 { return t.next }

// topics is a publisher's list of topics. A topic that no caller has open is forgotten after many topic runs of others,
// when receivers have forgotten it, too. docs/protocol §10.8, §10.9.
type topics struct {
	byID map[uint64]*Topic
	list []*Topic

	runs  uint64 // topic runs in the stream
	swept uint64 // runs at the last sweep
	first uint64 // number of the first message of topics that are added now
	floor uint64 // one beyond the last sequence with a message of a forgotten topic
}

// Topic returns the topic of that name, adding it at first use. Each call needs a Release. It may return a
// *TopicCollisionError.
func (s *Sender) Topic(name string) (*Topic, error) {
	if name == "" || len(name) > wire.MaxTopicName {
		return nil, fmt.Errorf("topic name of %d bytes is not within 1..%d", len(name), wire.MaxTopicName)
	}
	id := wire.TopicID(name)
	if t := s.topics.byID[id]; t != nil {
		if t.Name != name {
			return nil, &events.TopicCollisionError{ID: events.ID(id), Known: t.Name, Other: name}
		}
		t.users++
		return t, nil
	}
	t := &Topic{ID: id, Name: name, next: s.topics.first, delivered: delivered{number: s.topics.first},
		stated: s.topics.runs, users: 1}
	if s.topics.byID == nil {
		s.topics.byID = make(map[uint64]*Topic)
	}
	s.topics.byID[id] = t
	s.topics.list = append(s.topics.list, t)
	return t, nil
}

// Release ends one use of a topic, after its messages have sequences.
func (s *Sender) Release(t *Topic) { t.users-- }

// topicStated records a topic run in packet seq, and sweeps the topics now and then.
func (s *Sender) topicStated(t *Topic, seq uint64) {
	x := &s.topics
	x.runs++
	if t.naming.by.Load() != namedBefore { // a repeated name may be lost, and no round has it again
		if t.last, t.stated = seq, x.runs; !t.said {
			t.named, t.said = seq, true
		}
		t.naming.by.Store(namedBefore)
	}
	if x.runs-x.swept >= s.keep/32 {
		x.swept = x.runs
		trail := s.stream.Trail()
		if s.index.phase != indexIdle {
			trail = 0 // a round must have all topics
		}
		x.sweep(s.keep-s.keep/8, trail, s.batches.sink)
	}
}

// sweep forgets topics without users that have age topic runs after their last one, and no message behind packet trail.
// Other topics of that age are named again before their next message.
func (x *topics) sweep(age, trail uint64, sink SenderSink) {
	kept := make([]*Topic, 0, len(x.list))
	for _, t := range x.list {
		old := x.runs-t.stated >= age
		if old && t.users == 0 && t.last < trail && t.next < wire.MaxSeq-2*wire.Returning {
			delete(x.byID, t.ID)
			if t.said {
				x.first = max(x.first, (t.next/wire.Returning+1)*wire.Returning)
				x.floor = max(x.floor, t.last+1)
			}
			sink.Forgotten(t.ID)
			continue
		}
		if kept = append(kept, t); old {
			t.asked = false
			t.naming.by.Store(nil)
		}
	}
	if len(kept) < len(x.list) {
		x.list = kept
	}
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

// name adds the name of t to the open packet, or to the next one. It reports false if there is no room, or if so many
// topic runs have no sequence that a topic may grow too old before its messages get one.
func (w *Writer) name(t *Topic) bool {
	n := wire.RunHeaderLen + len(t.Name)
	if uint64(w.named) >= w.s.keep/64 {
		w.endBlock()
		return false
	}
	if !w.openRun(n) {
		return false
	}
	w.named++
	wire.PutTopicRun(w.packet[w.off:w.off+n], t.ID, t.Name)
	w.runs = append(w.runs, runRef{topic: t, off: w.at(), name: true})
	w.off += n
	w.endTail()
	if by := t.naming.by.Load(); by != namedBefore {
		t.naming.by.CompareAndSwap(by, w)
	}
	return true
}

// namedBefore reports whether a packet before sequence seq has the topic's name. nil: there is no such topic.
func (t *Topic) namedBefore(seq uint64) bool {
	return t == nil || t.said && t.named < seq
}

package contenders

import (
	"encoding/binary"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// Where there are many topics, each message of raw has its topic's id and its own number
// on the topic before it, and the subscriber finds the topic's record by the id: that is
// the least that lets one packet have messages of many topics. So the rate of raw beside
// Fanfare's for one topic says what share of it many topics can reach on the machine.
const rawTopicFields = rawLength + 16

var _ = [1]struct{}{}[rawTopical-rawHeader-rawTopicFields]

// Topical implements worker.Topical.
func (raw) Topical() {}

// rawTopic is what a side keeps of a topic.
type rawTopic struct {
	id   uint64
	name string
	next uint64 // number of its next message
}

// rawTopics are the topics by index, with ids as if they were hashed.
func rawTopics(names []string) []*rawTopic {
	all := make([]*rawTopic, len(names))
	for i, name := range names {
		all[i] = &rawTopic{id: (uint64(i) + 1) * 0x9e3779b97f4a7c15, name: name}
	}
	return all
}

// rawTopicWriter fills datagrams with messages of many topics.
type rawTopicWriter struct {
	src    *worker.TopicSource
	topics []*rawTopic
}

// fill fills p behind its header, with as many messages of size bytes as there is room for.
func (w *rawTopicWriter) fill(p []byte, size int) int {
	off := 0
	for off+rawTopicFields+size <= len(p) {
		off += w.put(p[off:], w.src.Next)
	}
	return off
}

// put writes one message, and says how long it is with what stands before it.
func (w *rawTopicWriter) put(p []byte, take func() (int, []byte)) int {
	i, msg := take()
	t := w.topics[i]
	binary.LittleEndian.PutUint32(p, uint32(len(msg)))
	binary.LittleEndian.PutUint64(p[rawLength:], t.id)
	binary.LittleEndian.PutUint64(p[rawLength+8:], t.next)
	t.next++
	return rawTopicFields + copy(p[rawTopicFields:], msg)
}

// rawTopicParser finds the topics of messages.
type rawTopicParser struct {
	topics map[uint64]*rawTopic
	check  *worker.Receiver
}

func newRawTopicParser(r *worker.Run, v *worker.Receiver) *rawTopicParser {
	p := &rawTopicParser{topics: make(map[uint64]*rawTopic), check: v}
	for _, t := range rawTopics(r.Spec.TopicNames()) {
		p.topics[t.id] = t
	}
	return p
}

// messages takes apart what follows a datagram's header.
func (p *rawTopicParser) messages(b []byte) {
	for len(b) >= rawTopicFields {
		n := int(binary.LittleEndian.Uint32(b))
		t := p.topics[binary.LittleEndian.Uint64(b[rawLength:])]
		if n == 0 || n > len(b)-rawTopicFields || t == nil {
			return
		}
		if number := binary.LittleEndian.Uint64(b[rawLength+8:]); number != t.next {
			t.next = number // what is missing, the check tells
		}
		t.next++
		p.check.On(t.name, b[rawTopicFields:rawTopicFields+n])
		b = b[rawTopicFields+n:]
	}
}

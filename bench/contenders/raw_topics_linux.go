package contenders

import "encoding/binary"

// rawTopic is what a side keeps of a topic. Where there are many topics, each message of raw has its topic's id and
// its own number on the topic before it, and the subscriber finds the topic's record by the id: that is the least
// that lets one packet have messages of many topics. So the rate of raw beside Fanfare's for one topic says what
// share of it many topics can reach on the machine.
type rawTopic struct {
	id   uint64
	name string
	next uint64 // number of its next message
}

// Topical implements worker.Topical.
func (raw) Topical() {}

// rawTopics are the topics by index, with ids as if they were hashed.
func rawTopics(names []string) []*rawTopic {
	all := make([]*rawTopic, len(names))
	for i, name := range names {
		all[i] = &rawTopic{id: (uint64(i) + 1) * 0x9e3779b97f4a7c15, name: name}
	}
	return all
}

// put writes one message, and returns how long it is with what stands before it.
func (t *rawTopic) put(p, msg []byte) int {
	binary.LittleEndian.PutUint32(p, uint32(len(msg)))
	binary.LittleEndian.PutUint64(p[rawLength:], t.id)
	binary.LittleEndian.PutUint64(p[rawLength+8:], t.next)
	t.next++
	return rawTopicFields + copy(p[rawTopicFields:], msg)
}

// topicMessages takes apart what follows the header of a datagram that has messages of many topics.
func (p *rawParser) topicMessages(b []byte) {
	for len(b) >= rawTopicFields {
		n := int(binary.LittleEndian.Uint32(b))
		t := p.topics[binary.LittleEndian.Uint64(b[rawLength:])]
		if n == 0 || n > len(b)-rawTopicFields || t == nil {
			return
		}
		if number := binary.LittleEndian.Uint64(b[rawLength+8:]); number != t.next {
			t.next = number // the check counts what is missing
		}
		t.next++
		p.v.On(t.name, b[rawTopicFields:rawTopicFields+n])
		b = b[rawTopicFields+n:]
	}
}

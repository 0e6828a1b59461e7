package contenders

import "encoding/binary"

// rawTopic is the state of a topic on one side. With many topics each message of raw has its
// topic's id and its number on that topic before it, and the subscriber finds the topic by its id:
// the minimum that allows packets with messages of several topics. The rate of raw, relative to one
// topic, therefore shows what share of Fanfare's rate the machine allows with many topics.
type rawTopic struct {
	id   uint64
	name string
	next uint64 // number of its next message
}

// Topical implements worker.Topical.
func (raw) Topical() {}

// rawTopics are the topics by index, with ids that look like hashes.
func rawTopics(names []string) []*rawTopic {
	all := make([]*rawTopic, len(names))
	for i, name := range names {
		all[i] = &rawTopic{id: (uint64(i) + 1) * 0x9e3779b97f4a7c15, name: name}
	}
	return all
}

// put writes one message, and returns its length including the fields before it.
func (t *rawTopic) put(p, msg []byte) int {
	binary.LittleEndian.PutUint32(p, uint32(len(msg)))
	binary.LittleEndian.PutUint64(p[rawLength:], t.id)
	binary.LittleEndian.PutUint64(p[rawLength+8:], t.next)
	t.next++
	return rawTopicFields + copy(p[rawTopicFields:], msg)
}

// topicMessages parses a datagram with messages of many topics, after its header.
func (p *rawParser) topicMessages(b []byte) {
	for len(b) >= rawTopicFields {
		n := int(binary.LittleEndian.Uint32(b))
		t := p.topics[binary.LittleEndian.Uint64(b[rawLength:])]
		if n == 0 || n > len(b)-rawTopicFields || t == nil {
			return
		}
		if number := binary.LittleEndian.Uint64(b[rawLength+8:]); number != t.next {
			t.next = number // the check counts missing numbers
		}
		t.next++
		p.v.On(t.name, b[rawTopicFields:rawTopicFields+n])
		b = b[rawTopicFields+n:]
	}
}

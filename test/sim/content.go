package sim

import (
	"bytes"

	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// Content is the list of messages that publishers publish, in order and repeatedly, instead of
// generated ones. Publishers that compress with a dictionary use its dictionary.
type Content struct {
	Messages   []ContentMessage
	Dictionary *compress.Dictionary
}

// ContentMessage is a message that fits in a packet.
type ContentMessage struct {
	Topic int
	Data  []byte
}

// TopicName returns the name of topic i of the simulated publishers, i < MaxTopics.
func TopicName(i int) string { return topicNames[i] }

// message returns the n-th message of a writer, from 0 on: n is its key.
func (c *Content) message(n uint64) message {
	m := c.of(n)
	return message{key: n, size: len(m.Data), topic: m.Topic}
}

func (c *Content) of(key uint64) *ContentMessage {
	return &c.Messages[key%uint64(len(c.Messages))]
}

// fill writes the message with that key.
func (c *Content) fill(b []byte, key uint64) {
	if c == nil {
		fill(b, key)
		return
	}
	copy(b, c.of(key).Data)
}

// matches reports whether b is the message with that key.
func (c *Content) matches(b []byte, key uint64) bool {
	if c == nil {
		return matches(b, key)
	}
	return bytes.Equal(b, c.of(key).Data)
}

func (c *Content) dictionary() *compress.Dictionary {
	if c == nil || c.Dictionary == nil {
		return testDictionary()
	}
	return c.Dictionary
}

// unpacker returns an unpacker that has the dictionary.
func (c *Content) unpacker() wire.Unpacker {
	if d := c.dictionary(); d != testDictionary() {
		return compress.NewUnpacker([]*compress.Dictionary{d})
	}
	return unpackAll()
}

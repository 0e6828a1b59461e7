package sim

import (
	"bytes"

	"github.com/fanfaremq/fanfare/internal/compress"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// Content is what publishers publish in place of messages that are made up: one after the other,
// and then from the first again. Publishers that compress with a dictionary have this one.
type Content struct {
	Messages   []ContentMessage
	Dictionary *compress.Dictionary
}

// ContentMessage is a message that fits a packet.
type ContentMessage struct {
	Topic int
	Data  []byte
}

// TopicName is the name of a topic of the simulated publishers, of MaxTopics.
func TopicName(i int) string { return topicNames[i] }

// message is the n-th one of a writer, from 0 on: n is its key.
func (c *Content) message(n uint64) message {
	m := c.of(n)
	return message{key: n, size: len(m.Data), topic: m.Topic}
}

func (c *Content) of(key uint64) *ContentMessage {
	return &c.Messages[key%uint64(len(c.Messages))]
}

// fill writes the message of that key.
func (c *Content) fill(b []byte, key uint64) {
	if c == nil {
		fill(b, key)
		return
	}
	copy(b, c.of(key).Data)
}

// matches reports whether b is the message of that key.
func (c *Content) matches(b []byte, key uint64) bool {
	if c == nil {
		return matches(b, key)
	}
	return bytes.Equal(b, c.of(key).Data)
}

func (c *Content) dictionary() *compress.Dictionary {
	if c == nil || c.Dictionary == nil {
		return theDictionary()
	}
	return c.Dictionary
}

// unpacker knows the dictionary.
func (c *Content) unpacker() wire.Unpacker {
	if d := c.dictionary(); d != theDictionary() {
		return compress.NewUnpacker([]*compress.Dictionary{d})
	}
	return unpackAll()
}

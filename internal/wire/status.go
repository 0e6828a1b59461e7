package wire

import (
	"encoding/binary"
	"time"
)

// Status, after the common header:
//
//	+---------------------------------------------------------------+
//	|                          receiver id                          |  32
//	+---------------------------------------------------------------+
//	|                             next                              |  40
//	+---------------------------------------------------------------+
//	|                             limit                             |  48
//	+---------------------------------------------------------------+
//	|                             echo                              |  56
//	+-------------------------------+---------------+---------------+
//	|       echo delay, ns          |    topics     |  name length  |  64
//	+-------------------------------+---------------+---------------+
//	|             lost              |            unread             |  72
//	+-------------------------------+-------------------------------+
//	|                             since                             |  80
//	+-------------------------------+-------------------------------+
//	|            question           |               0               |  88
//	+-------------------------------+-------------------------------+
//	| topic ids, 8 bytes each ...                                   |  96
//	+---------------------------------------------------------------+
//	| name, UTF-8 ...                                               |
//
// With FlagTagged the tag's length, one byte, and the tag follow.
const (
	StatusHeaderLen = 96
	// MaxStatusTopics limits the topics in one status, and MaxTaggedTopics those in one with a tag: with the longest name
	// and tag it fits the smallest packet.
	MaxStatusTopics = (MinPacket - StatusHeaderLen - MaxName) / 8
	MaxTaggedTopics = (MinPacket - StatusHeaderLen - MaxName - 1 - MaxTag) / 8
)

// Status reports a subscriber's progress to a publisher. Flags of the header:
// FlagJoining, FlagWantState, FlagLeaving, FlagWantTopics, FlagMoreTopics; FlagTagged follows from Tag.
type Status struct {
	// Receiver is the random id of the subscriber; an address does not identify it.
	Receiver uint64
	// Next is the lowest sequence that is neither received nor given up as lost.
	Next uint64
	// Limit is the first sequence for which the subscriber has no room.
	Limit uint64
	// Echo is SentAt of the last heartbeat, zero if none, and EchoDelay the time since it arrived.
	Echo      uint64
	EchoDelay time.Duration
	// Lost counts packets given up as lost, modulo 2^32.
	Lost uint32
	// Unread is the number of received packets that the subscriber has not read.
	Unread uint32
	// Since and Question, with FlagWantTopics: the subscriber lacks packets from sequence Since on. The question is new
	// whenever an earlier answer does not suffice any more.
	Since    uint64
	Question uint32
	// Name is the subscriber's name, for people to read; see CleanName. Empty: unknown.
	Name []byte
	// Tag is the tag that publishers may wait for. Empty: none or unknown.
	Tag    []byte
	topics []byte
}

// mostTopics returns the maximum number of topics in a status with those flags.
func mostTopics(f Flags) int {
	if f&FlagTagged != 0 {
		return MaxTaggedTopics
	}
	return MaxStatusTopics
}

// AppendStatus appends the packet to b. Topics that do not fit are omitted and FlagMoreTopics is set; a name is
// truncated to MaxName bytes, a tag to MaxTag.
func AppendStatus(b []byte, h Header, s *Status, topics []uint64) []byte {
	h.Type = TypeStatus
	h.Flags &^= FlagTagged
	name, tag := s.Name[:min(len(s.Name), MaxName)], s.Tag[:min(len(s.Tag), MaxTag)]
	if len(tag) > 0 {
		h.Flags |= FlagTagged
	}
	if most := mostTopics(h.Flags); len(topics) > most {
		topics = topics[:most]
		h.Flags |= FlagMoreTopics
	}
	end := StatusHeaderLen + 8*len(topics) + len(name)
	size := end
	if len(tag) > 0 {
		size += 1 + len(tag)
	}
	b, p := extend(b, size)
	h.Put(p)
	binary.LittleEndian.PutUint64(p[32:], s.Receiver)
	binary.LittleEndian.PutUint64(p[40:], s.Next)
	binary.LittleEndian.PutUint64(p[48:], s.Limit)
	binary.LittleEndian.PutUint64(p[56:], s.Echo)
	binary.LittleEndian.PutUint32(p[64:], clamp32(int64(s.EchoDelay)))
	binary.LittleEndian.PutUint16(p[68:], uint16(len(topics)))
	binary.LittleEndian.PutUint16(p[70:], uint16(len(name)))
	binary.LittleEndian.PutUint32(p[72:], s.Lost)
	binary.LittleEndian.PutUint32(p[76:], s.Unread)
	binary.LittleEndian.PutUint64(p[80:], s.Since)
	binary.LittleEndian.PutUint32(p[88:], s.Question)
	binary.LittleEndian.PutUint32(p[92:], 0)
	for i, t := range topics {
		binary.LittleEndian.PutUint64(p[StatusHeaderLen+8*i:], t)
	}
	copy(p[StatusHeaderLen+8*len(topics):], name)
	if len(tag) > 0 {
		p[end] = byte(len(tag))
		copy(p[end+1:], tag)
	}
	return b
}

// ParseStatus parses the status b after ParseHeader. docs/protocol §13.3.
func ParseStatus(b []byte) (Status, error) {
	if len(b) < StatusHeaderLen {
		return Status{}, ErrShort
	}
	s := Status{
		Receiver:  binary.LittleEndian.Uint64(b[32:]),
		Next:      binary.LittleEndian.Uint64(b[40:]),
		Limit:     binary.LittleEndian.Uint64(b[48:]),
		Echo:      binary.LittleEndian.Uint64(b[56:]),
		EchoDelay: time.Duration(binary.LittleEndian.Uint32(b[64:])),
		Lost:      binary.LittleEndian.Uint32(b[72:]),
		Unread:    binary.LittleEndian.Uint32(b[76:]),
		Since:     binary.LittleEndian.Uint64(b[80:]),
		Question:  binary.LittleEndian.Uint32(b[88:]),
	}
	n, name := int(binary.LittleEndian.Uint16(b[68:])), int(binary.LittleEndian.Uint16(b[70:]))
	flags := Flags(b[4])
	if s.Receiver == 0 || n > mostTopics(flags) || name > MaxName ||
		s.Next > MaxSeq || s.Limit > MaxSeq || s.Since > MaxSeq || s.Limit < s.Next {
		return Status{}, ErrMalformed
	}
	end := StatusHeaderLen + 8*n
	if len(b) < end+name {
		return Status{}, ErrShort
	}
	s.topics, s.Name = b[StatusHeaderLen:end], b[end:end+name]
	if flags&FlagTagged == 0 {
		return s, nil
	}
	rest := b[end+name:]
	switch {
	case len(rest) == 0:
		return Status{}, ErrShort
	case rest[0] == 0 || rest[0] > MaxTag:
		return Status{}, ErrMalformed
	case len(rest)-1 < int(rest[0]):
		return Status{}, ErrShort
	}
	s.Tag = rest[1 : 1+rest[0]]
	return s, nil
}

// Topics returns the number of listed topics.
func (s *Status) Topics() int { return len(s.topics) / 8 }

// Topic returns the id of the i-th listed topic.
func (s *Status) Topic(i int) uint64 { return binary.LittleEndian.Uint64(s.topics[8*i:]) }

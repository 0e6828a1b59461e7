package wire

import (
	"encoding/binary"
	"time"
)

// Status, behind the common header:
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
//	| topic ids, 8 bytes each ...                                   |  80
//	+---------------------------------------------------------------+
//	| name, UTF-8 ...                                               |
//
// With FlagTagged there follow the tag's length, one byte, and the tag.
const (
	StatusHeaderLen = 80
	// MaxStatusTopics bounds the topics in one status, and MaxTaggedTopics those in one
	// with a tag: with the longest name and tag it fits the smallest packet.
	MaxStatusTopics = (MinPacket - StatusHeaderLen - MaxName) / 8
	MaxTaggedTopics = (MinPacket - StatusHeaderLen - MaxName - 1 - MaxTag) / 8
)

// Status reports a subscriber's progress to a publisher. Flags of the header:
// FlagJoining, FlagWantState, FlagLeaving, FlagWantTopics, FlagMoreTopics; FlagTagged follows from Tag.
type Status struct {
	// Receiver is the random id of the subscriber; addresses are no identity.
	Receiver uint64
	// Next is the lowest sequence that is neither received nor given up.
	Next uint64
	// Limit is the first sequence the subscriber has no room for.
	Limit uint64
	// Echo is SentAt of the last heartbeat, zero if none, and EchoDelay how long ago it came in.
	Echo      uint64
	EchoDelay time.Duration
	// Lost counts packets given up, modulo 2^32.
	Lost uint32
	// Unread is how many packets wait at the subscriber to be read.
	Unread uint32
	// Name is what the subscriber calls itself, for people to read; see CleanName. Empty: it does not say.
	Name []byte
	// Tag is what publishers that wait for a tag look for. Empty: it has none, or does not say.
	Tag    []byte
	topics []byte
}

// mostTopics is how many topics a status with such flags holds.
func mostTopics(f Flags) int {
	if f&FlagTagged != 0 {
		return MaxTaggedTopics
	}
	return MaxStatusTopics
}

// AppendStatus appends the packet to b. Topics for which there is no room are left
// out and FlagMoreTopics is set; a name is cut to MaxName bytes, a tag to MaxTag.
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

// ParseStatus reads the status b, after its header. docs/protocol §13.3.
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
	}
	n, name := int(binary.LittleEndian.Uint16(b[68:])), int(binary.LittleEndian.Uint16(b[70:]))
	flags := Flags(b[4])
	if n > mostTopics(flags) || name > MaxName || s.Next > MaxSeq || s.Limit > MaxSeq || s.Limit < s.Next {
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

// Topics is the number of topics listed.
func (s *Status) Topics() int { return len(s.topics) / 8 }

// Topic is the i-th topic listed.
func (s *Status) Topic(i int) uint64 { return binary.LittleEndian.Uint64(s.topics[8*i:]) }

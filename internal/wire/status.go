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
const (
	StatusHeaderLen = 80
	// MaxStatusTopics bounds the topics in one status: with the longest name it
	// fits the smallest packet.
	MaxStatusTopics = (MinPacket - StatusHeaderLen - MaxName) / 8
)

// Status tells a publisher how far one subscriber is. Flags of the header:
// FlagLeaving, FlagWantTopics, FlagMoreTopics.
type Status struct {
	// Receiver is the random id of the subscriber; addresses are no identity.
	Receiver uint64
	// Next is the lowest sequence that is neither received nor given up.
	Next uint64
	// Limit is the first sequence the subscriber has no room for.
	Limit uint64
	// Echo is SentAt of the last heartbeat, zero if none, and EchoDelay how
	// long ago it came in.
	Echo      uint64
	EchoDelay time.Duration
	// Lost counts packets given up for good, modulo 2^32.
	Lost uint32
	// Unread is how many packets wait at the subscriber to be read.
	Unread uint32
	// Name is what the subscriber calls itself, for people to read; see CleanName.
	// Empty: it does not say.
	Name   []byte
	topics []byte
}

// AppendStatus appends the packet to b. topics beyond MaxStatusTopics are left
// out and FlagMoreTopics is set; a name is cut to MaxName bytes.
func AppendStatus(b []byte, h Header, s *Status, topics []uint64) []byte {
	h.Type = TypeStatus
	if len(topics) > MaxStatusTopics {
		topics = topics[:MaxStatusTopics]
		h.Flags |= FlagMoreTopics
	}
	name := s.Name[:min(len(s.Name), MaxName)]
	b, p := extend(b, StatusHeaderLen+8*len(topics)+len(name))
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
	return b
}

// ParseStatus reads the status b, whose header has been parsed. docs/protocol.md §13.3.
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
	if n > MaxStatusTopics || name > MaxName || s.Next > MaxSeq || s.Limit > MaxSeq || s.Limit < s.Next {
		return Status{}, ErrMalformed
	}
	end := StatusHeaderLen + 8*n
	if len(b) < end+name {
		return Status{}, ErrShort
	}
	s.topics, s.Name = b[StatusHeaderLen:end], b[end:end+name]
	return s, nil
}

// Topics is the number of topics listed.
func (s *Status) Topics() int { return len(s.topics) / 8 }

// Topic is the i-th topic listed.
func (s *Status) Topic(i int) uint64 { return binary.LittleEndian.Uint64(s.topics[8*i:]) }

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
//	|       echo delay, ns          |    topics     |       0       |  64
//	+-------------------------------+---------------+---------------+
//	|             lost              |               0               |  72
//	+-------------------------------+-------------------------------+
//	| topic ids, 8 bytes each ...                                   |  80
const (
	StatusHeaderLen = 80
	// MaxStatusTopics bounds the topics in one status.
	MaxStatusTopics = 50
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
	Lost   uint32
	topics []byte
}

// AppendStatus appends the packet to b. topics beyond MaxStatusTopics are left
// out and FlagMoreTopics is set.
func AppendStatus(b []byte, h Header, s *Status, topics []uint64) []byte {
	h.Type = TypeStatus
	if len(topics) > MaxStatusTopics {
		topics = topics[:MaxStatusTopics]
		h.Flags |= FlagMoreTopics
	}
	b, p := extend(b, StatusHeaderLen+8*len(topics))
	h.Put(p)
	binary.LittleEndian.PutUint64(p[32:], s.Receiver)
	binary.LittleEndian.PutUint64(p[40:], s.Next)
	binary.LittleEndian.PutUint64(p[48:], s.Limit)
	binary.LittleEndian.PutUint64(p[56:], s.Echo)
	binary.LittleEndian.PutUint32(p[64:], clamp32(int64(s.EchoDelay)))
	binary.LittleEndian.PutUint16(p[68:], uint16(len(topics)))
	binary.LittleEndian.PutUint32(p[72:], s.Lost)
	for i, t := range topics {
		binary.LittleEndian.PutUint64(p[StatusHeaderLen+8*i:], t)
	}
	return b
}

// ParseStatus reads the status b, whose header has been parsed.
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
	}
	n := int(binary.LittleEndian.Uint16(b[68:]))
	if n > MaxStatusTopics || s.Next > MaxSeq || s.Limit > MaxSeq || s.Limit < s.Next {
		return Status{}, ErrMalformed
	}
	if len(b) < StatusHeaderLen+8*n {
		return Status{}, ErrShort
	}
	s.topics = b[StatusHeaderLen : StatusHeaderLen+8*n]
	return s, nil
}

// Topics is the number of topics listed.
func (s *Status) Topics() int { return len(s.topics) / 8 }

// Topic is the i-th topic listed.
func (s *Status) Topic(i int) uint64 { return binary.LittleEndian.Uint64(s.topics[8*i:]) }

package wire

import "encoding/binary"

// Announce, after the common header:
//
//	+---------------------------------------------------------------+
//	|                             as of                             |  32
//	+-------------------------------+-------------------------------+
//	|         first index           |        topics in all          |  40
//	+---------------+---------------+-------------------------------+
//	|     count     |       0       |              0                |  48
//	+---------------+---------------+-------------------------------+
//	| topics ...                                                    |  56
//
// and for each topic:
//
//	+---------------------------------------------------------------+
//	|                           topic id                            |   0
//	+---------------------------------------------------------------+
//	|                         next number                           |   8
//	+---------------+-----------------------------------------------+
//	|  name length  | name ...                                      |  16
const (
	AnnounceHeaderLen = 56
	announceEntryLen  = 18
	// MaxTopicName is the longest topic name, in bytes.
	MaxTopicName = 255
)

// AnnounceEntryLen returns the size of one topic with that name, in bytes.
func AnnounceEntryLen(name string) int { return announceEntryLen + len(name) }

// Announce has the names of topics of a stream and the number of each topic's next message, so that a subscriber knows
// exactly how many messages a silent topic has lost.
type Announce struct {
	// AsOf is the stream's lead at which the numbers hold.
	AsOf uint64
	// First is the index of the first topic here in the publisher's list of Total topics. The list only grows.
	First, Total uint32
	Count        int
	entries      []byte
}

// TopicState is one announced topic.
type TopicState struct {
	ID   uint64
	Next uint64 // number of the topic's next message
	Name []byte // points into the packet
}

// AppendAnnounceHeader appends an announce without topics to b; then call AppendTopicState for each topic, and
// FinishAnnounce.
func AppendAnnounceHeader(b []byte, h Header, asOf uint64, first, total uint32) []byte {
	h.Type = TypeAnnounce
	b, p := extend(b, AnnounceHeaderLen)
	h.Put(p)
	binary.LittleEndian.PutUint64(p[32:], asOf)
	binary.LittleEndian.PutUint32(p[40:], first)
	binary.LittleEndian.PutUint32(p[44:], total)
	return b
}

// AppendTopicState appends one topic.
func AppendTopicState(b []byte, id, next uint64, name string) []byte {
	b, p := extend(b, announceEntryLen+len(name))
	binary.LittleEndian.PutUint64(p, id)
	binary.LittleEndian.PutUint64(p[8:], next)
	binary.LittleEndian.PutUint16(p[16:], uint16(len(name)))
	copy(p[announceEntryLen:], name)
	return b
}

// FinishAnnounce writes the number of topics into the announce packet p.
func FinishAnnounce(p []byte, count int) { binary.LittleEndian.PutUint16(p[48:], uint16(count)) }

// ParseAnnounce parses the announce b after ParseHeader, and checks all of it. docs/protocol §13.3.
func ParseAnnounce(b []byte) (Announce, error) {
	if len(b) < AnnounceHeaderLen {
		return Announce{}, ErrShort
	}
	a := Announce{
		AsOf:    binary.LittleEndian.Uint64(b[32:]),
		First:   binary.LittleEndian.Uint32(b[40:]),
		Total:   binary.LittleEndian.Uint32(b[44:]),
		Count:   int(binary.LittleEndian.Uint16(b[48:])),
		entries: b[AnnounceHeaderLen:],
	}
	if a.AsOf > MaxSeq || uint64(a.First)+uint64(a.Count) > uint64(a.Total) {
		return Announce{}, ErrMalformed
	}
	rest := a.entries
	for range a.Count {
		if len(rest) < announceEntryLen {
			return Announce{}, ErrShort
		}
		n := int(binary.LittleEndian.Uint16(rest[16:]))
		if n == 0 || n > MaxTopicName || binary.LittleEndian.Uint64(rest[8:]) >= MaxSeq {
			return Announce{}, ErrMalformed
		}
		if len(rest) < announceEntryLen+n {
			return Announce{}, ErrShort
		}
		rest = rest[announceEntryLen+n:]
	}
	return a, nil
}

// Next splits the first topic off a; ok is false if there is none.
func (a *Announce) Next() (t TopicState, ok bool) {
	if a.Count == 0 {
		return TopicState{}, false
	}
	b := a.entries
	n := announceEntryLen + int(binary.LittleEndian.Uint16(b[16:]))
	t = TopicState{
		ID:   binary.LittleEndian.Uint64(b),
		Next: binary.LittleEndian.Uint64(b[8:]),
		Name: b[announceEntryLen:n:n],
	}
	a.entries = b[n:]
	a.Count--
	return t, true
}

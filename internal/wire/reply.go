package wire

import "encoding/binary"

// Reply (to the publisher of a request), after the common header:
//
//	+---------------------------------------------------------------+
//	|                          receiver id                          |  32
//	+---------------------------------------------------------------+
//	|                           topic id                            |  40
//	+---------------------------------------------------------------+
//	|                            number                             |  48
//	+-------------------------------+-------------------------------+
//	|             total             |            offset             |  56
//	+---------------+---------------+-------------------------------+
//	|    length     |       0       |               0               |  64
//	+---------------+---------------+-------------------------------+
//	| bytes ...                                                     |  72
//
// It holds length bytes, from offset on, of a receiver's reply of total bytes. The request is the topic's message with
// that number.
//
// With FlagSigned the last ReplyProofLen bytes of the whole reply are its proof (docs/protocol §24.7):
//
//	+-------------------------------+-------------------------------+
//	|            key id             |   signature, 64 bytes ...     |
//	+-------------------------------+-------------------------------+
const (
	ReplyHeaderLen = 72
	ReplyProofLen  = 68
)

// Reply is a parsed Reply.
type Reply struct {
	Receiver uint64 // id of the receiver that replies
	Topic    uint64 // of the request
	Number   uint64
	Total    int // bytes of the whole reply
	Offset   int
	Bytes    []byte
}

// MaxReplyBytes returns how many bytes of a reply fit one packet of packetSize bytes.
func MaxReplyBytes(packetSize int) int { return packetSize - ReplyHeaderLen }

// AppendReply appends the packet to b.
func AppendReply(b []byte, h Header, r *Reply) []byte {
	h.Type = TypeReply
	b, p := extend(b, ReplyHeaderLen+len(r.Bytes))
	h.Put(p)
	binary.LittleEndian.PutUint64(p[32:], r.Receiver)
	binary.LittleEndian.PutUint64(p[40:], r.Topic)
	binary.LittleEndian.PutUint64(p[48:], r.Number)
	binary.LittleEndian.PutUint32(p[56:], uint32(r.Total))
	binary.LittleEndian.PutUint32(p[60:], uint32(r.Offset))
	binary.LittleEndian.PutUint16(p[64:], uint16(len(r.Bytes)))
	copy(p[ReplyHeaderLen:], r.Bytes)
	return b
}

// ParseReply parses the reply b after ParseHeader. docs/protocol §13.3.
func ParseReply(b []byte) (Reply, error) {
	if len(b) < ReplyHeaderLen {
		return Reply{}, ErrShort
	}
	total, offset := binary.LittleEndian.Uint32(b[56:]), binary.LittleEndian.Uint32(b[60:])
	n := int(binary.LittleEndian.Uint16(b[64:]))
	r := Reply{
		Receiver: binary.LittleEndian.Uint64(b[32:]),
		Topic:    binary.LittleEndian.Uint64(b[40:]),
		Number:   binary.LittleEndian.Uint64(b[48:]),
		Total:    int(total),
		Offset:   int(offset),
	}
	if Flags(b[4])&FlagSigned != 0 && total < ReplyProofLen {
		return Reply{}, ErrMalformed
	}
	if r.Number >= MaxSeq || total > MaxMessage || uint64(offset)+uint64(n) > uint64(total) || n == 0 && total > 0 {
		return Reply{}, ErrMalformed
	}
	if len(b) < ReplyHeaderLen+n {
		return Reply{}, ErrShort
	}
	r.Bytes = b[ReplyHeaderLen : ReplyHeaderLen+n]
	return r, nil
}

// Recall (to the group), after the common header:
//
//	+---------------+---------------+-------------------------------+
//	|    count      |       0       |               0               |  32
//	+---------------+---------------+-------------------------------+
//	| replies ...                                                   |  40
//
// and for each reply that the publisher has not received completely:
//
//	+---------------------------------------------------------------+
//	|                          receiver id                          |   0
//	+---------------------------------------------------------------+
//	|                           topic id                            |   8
//	+---------------------------------------------------------------+
//	|                            number                             |  16
//	+-------------------------------+-------------------------------+
//	|            offset             |               0               |  24
//	+-------------------------------+-------------------------------+
//
// The receiver sends its reply to that request again, from offset on.
const (
	RecallHeaderLen = 40
	RecallEntryLen  = 32
)

// Recalled is one reply that a Recall requests.
type Recalled struct {
	Receiver uint64
	Topic    uint64
	Number   uint64
	Offset   int // bytes that the publisher already has
}

// Recall is a parsed Recall.
type Recall struct {
	Count int
	b     []byte
}

// AppendRecallHeader appends a Recall without replies to b; then call AppendRecalled for each reply, and FinishRecall.
func AppendRecallHeader(b []byte, h Header) []byte {
	h.Type = TypeRecall
	b, p := extend(b, RecallHeaderLen)
	h.Put(p)
	clear(p[HeaderLen:])
	return b
}

// AppendRecalled appends one reply.
func AppendRecalled(b []byte, x *Recalled) []byte {
	b, p := extend(b, RecallEntryLen)
	binary.LittleEndian.PutUint64(p[0:], x.Receiver)
	binary.LittleEndian.PutUint64(p[8:], x.Topic)
	binary.LittleEndian.PutUint64(p[16:], x.Number)
	binary.LittleEndian.PutUint32(p[24:], uint32(x.Offset))
	binary.LittleEndian.PutUint32(p[28:], 0)
	return b
}

// FinishRecall writes the number of replies into the Recall p.
func FinishRecall(p []byte, count int) { binary.LittleEndian.PutUint16(p[32:], uint16(count)) }

// ParseRecall parses the recall b after ParseHeader, and checks all of it. docs/protocol §13.3.
func ParseRecall(b []byte) (Recall, error) {
	if len(b) < RecallHeaderLen {
		return Recall{}, ErrShort
	}
	r := Recall{Count: int(binary.LittleEndian.Uint16(b[32:])), b: b[RecallHeaderLen:]}
	if r.Count == 0 {
		return Recall{}, ErrMalformed
	}
	if len(r.b) < r.Count*RecallEntryLen {
		return Recall{}, ErrShort
	}
	for i := range r.Count {
		if x := r.At(i); x.Number >= MaxSeq || x.Offset > MaxMessage {
			return Recall{}, ErrMalformed
		}
	}
	return r, nil
}

// At returns the i-th reply, 0 <= i < Count.
func (r *Recall) At(i int) Recalled {
	p := r.b[i*RecallEntryLen:][:RecallEntryLen]
	return Recalled{
		Receiver: binary.LittleEndian.Uint64(p[0:]),
		Topic:    binary.LittleEndian.Uint64(p[8:]),
		Number:   binary.LittleEndian.Uint64(p[16:]),
		Offset:   int(binary.LittleEndian.Uint32(p[24:])),
	}
}

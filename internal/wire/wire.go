// Package wire is the packet format of Fanfare, version 1.
//
// All integers are little-endian. Every packet begins with the same 32 bytes:
//
//	 0       1       2       3       4       5       6       7
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	| magic "Ff"    |version| type  | flags | codec |keyepch|   0   |   0
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	|           group tag           |     checksum (CRC-32C)        |   8
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	|                         publisher id                          |  16
//	+---------------------------------------------------------------+
//	|                             epoch                             |  24
//	+---------------------------------------------------------------+
//
// Publisher id and epoch identify a stream within a group. The group tag is a hash of the group's address, so that
// packets of groups that share a port are kept apart. Codec is the compression of a data packet's runs (packed.go), and
// zero in other packets; key epoch is reserved and must be zero. Flags are the only byte of a packet that may differ
// between its transmissions; the checksum does not cover them, nor itself.
//
// The layouts of the types are in: Data (data.go), Heartbeat (heartbeat.go), Status (status.go), NAK, NCF and Gone
// (ranges.go), Hello (hello.go), Reply and Recall (reply.go). docs/protocol explains what they are for.
//
// All versions have magic, version, type, group tag, publisher id and epoch at these offsets: ParseKept.
//
// Parsers return values that point into the packet, never allocate, reject every truncation, and ignore unknown parts:
// trailing bytes after a control packet, reserved fields, and unknown flags.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/fanfaremq/fanfare/internal/crc"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Sizes in bytes.
const (
	HeaderLen = 32 // common header
	// MaxPacket is the largest UDP payload over IPv4; lengths fit 16 bits.
	MaxPacket = 65507
	// MinPacket is the smallest packet size that a stream may use: every control packet fits it, with at least one topic
	// with the longest name.
	MinPacket = 512
)

// Version is the only version of the format so far.
const Version = 1

// MaxSeq is the maximum of sequence and message numbers: larger ones are malformed. They never wrap: at 10^8 a second
// 2^62 lasts 1461 years.
const MaxSeq = 1 << 62

// Type is the type of a packet.
type Type uint8

// Packet types; 3 is unused. From the publisher: Data, Heartbeat, NCF, Gone and Recall, to the group. From a
// subscriber: NAK, Status and Reply, to the publisher alone. From a bus that publishes: Hello, to group 0; its answer,
// from one that subscribes, to that bus alone.
const (
	TypeData      Type = 1
	TypeHeartbeat Type = 2
	TypeNAK       Type = 4
	TypeNCF       Type = 5
	TypeGone      Type = 6
	TypeStatus    Type = 7
	TypeHello     Type = 8
	TypeReply     Type = 9
	TypeRecall    Type = 10

	LastType = TypeRecall // of this version

	unusedType Type = 3
)

// Known reports whether t is a type of this version.
func (t Type) Known() bool { return t >= TypeData && t <= LastType && t != unusedType }

func (t Type) String() string {
	switch t {
	case TypeData:
		return "data"
	case TypeHeartbeat:
		return "heartbeat"
	case TypeNAK:
		return "nak"
	case TypeNCF:
		return "ncf"
	case TypeGone:
		return "gone"
	case TypeStatus:
		return "status"
	case TypeHello:
		return "hello"
	case TypeReply:
		return "reply"
	case TypeRecall:
		return "recall"
	}
	return fmt.Sprintf("type(%d)", uint8(t))
}

// Flags are bits of header byte 4.
type Flags uint8

const (
	// FlagRepair marks a data packet that is sent again.
	FlagRepair Flags = 1 << 0
	// FlagJoining in a status: the subscriber fetches packets from before it joined, and the publisher must not wait for
	// it.
	FlagJoining Flags = 1 << 0
	// FlagSigned in a reply: it ends with the receiver's proof: key id and signature, ReplyProofLen bytes.
	FlagSigned Flags = 1 << 0
	// FlagEnd in a heartbeat: the stream ends before Lead.
	FlagEnd Flags = 1 << 1
	// FlagTagged in a status: the subscriber's tag follows the name.
	FlagTagged Flags = 1 << 1
	// FlagSolicit in a heartbeat: every subscriber answers with its status.
	FlagSolicit Flags = 1 << 2
	// FlagWantState in a status: the subscriber waits for a round of state that begins at Next or later.
	FlagWantState Flags = 1 << 2
	// FlagChecksum: the checksum field is in use.
	FlagChecksum Flags = 1 << 3
	// FlagLeaving in a status: the subscriber leaves.
	FlagLeaving Flags = 1 << 4
	// FlagState in a heartbeat: the publisher offers the state of some topic to late joiners.
	FlagState Flags = 1 << 4
	// FlagWantTopics in a status: it asks for an index round.
	FlagWantTopics Flags = 1 << 5
	// FlagMoreTopics in a status: the list of topics is not complete.
	FlagMoreTopics Flags = 1 << 6
	// FlagFree in a heartbeat: the publisher does not wait for subscribers; one that is too slow has gaps.
	FlagFree Flags = 1 << 7
)

// Errors of the parsers. They are counted, not shown, so they have no details.
var (
	ErrShort       = errors.New("wire: packet is truncated")
	ErrForeign     = errors.New("wire: not a Fanfare packet")
	ErrVersion     = errors.New("wire: unknown version")
	ErrType        = errors.New("wire: unknown packet type")
	ErrUnsupported = errors.New("wire: codec, kind of run or key epoch is not supported")
	ErrChecksum    = errors.New("wire: checksum does not match")
	ErrMalformed   = errors.New("wire: malformed packet")
)

// Header is the common header of all packets.
type Header struct {
	Type      Type
	Flags     Flags
	GroupTag  uint32
	Publisher events.ID
	Epoch     events.ID
}

// Instance is the instance of the publisher that sends the stream.
func (h *Header) Instance() events.Instance {
	return events.Instance{Publisher: h.Publisher, Epoch: h.Epoch}
}

// Put writes h into the first HeaderLen bytes of b, with a zero checksum.
func (h *Header) Put(b []byte) {
	_ = b[HeaderLen-1]
	b[0], b[1], b[2], b[3] = 'F', 'f', Version, byte(h.Type)
	b[4], b[5], b[6], b[7] = byte(h.Flags), 0, 0, 0
	binary.LittleEndian.PutUint32(b[8:], h.GroupTag)
	binary.LittleEndian.PutUint32(b[12:], 0)
	binary.LittleEndian.PutUint64(b[16:], uint64(h.Publisher))
	binary.LittleEndian.PutUint64(b[24:], uint64(h.Epoch))
}

// ParseHeader parses the common header. It does not verify the checksum: see Verify. docs/protocol §2.6, §13.1.
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderLen {
		if len(b) >= 2 && (b[0] != 'F' || b[1] != 'f') {
			return Header{}, ErrForeign
		}
		return Header{}, ErrShort
	}
	if b[0] != 'F' || b[1] != 'f' {
		return Header{}, ErrForeign
	}
	if b[2] != Version {
		return Header{}, ErrVersion
	}
	if b[5]|b[6] != 0 && (b[6] != 0 || Type(b[3]) != TypeData) {
		return Header{}, ErrUnsupported
	}
	h := Header{
		Type:      Type(b[3]),
		Flags:     Flags(b[4]),
		GroupTag:  binary.LittleEndian.Uint32(b[8:]),
		Publisher: events.ID(binary.LittleEndian.Uint64(b[16:])),
		Epoch:     events.ID(binary.LittleEndian.Uint64(b[24:])),
	}
	if !h.Type.Known() {
		return h, ErrType
	}
	return h, nil
}

// ParseKept parses the header fields that every version of the format has: version, type, group tag, publisher id and
// epoch. Flags are not set. For bytes that are not a packet of any version it returns ErrForeign or ErrShort.
// docs/protocol §18.1.
func ParseKept(b []byte) (version uint8, h Header, err error) {
	if len(b) >= 2 && (b[0] != 'F' || b[1] != 'f') {
		return 0, Header{}, ErrForeign
	}
	if len(b) < HeaderLen {
		return 0, Header{}, ErrShort
	}
	return b[2], Header{
		Type:      Type(b[3]),
		GroupTag:  binary.LittleEndian.Uint32(b[8:]),
		Publisher: events.ID(binary.LittleEndian.Uint64(b[16:])),
		Epoch:     events.ID(binary.LittleEndian.Uint64(b[24:])),
	}, nil
}

// SetFlags replaces the flags of the packet b, the only part that may change between transmissions; FlagChecksum stays
// as SetChecksum has set it. docs/protocol §2.2.
func SetFlags(b []byte, f Flags) { b[4] = b[4]&byte(FlagChecksum) | byte(f&^FlagChecksum) }

// checksum covers the packet without the flags byte and the checksum field. It processes the eleven bytes of the header
// as three words, with a byte before them that does not change the initial CRC. docs/protocol §2.7.
func checksum(b []byte) uint32 {
	c := crc.Castagnoli
	sum := c.Word(beforeZero, binary.LittleEndian.Uint32(b[0:])<<8)
	sum = c.Word(sum, uint32(b[3])|binary.LittleEndian.Uint32(b[4:])&^0xff)
	sum = c.Word(sum, binary.LittleEndian.Uint32(b[8:]))
	return c.Update(sum, b[16:])
}

// beforeZero is the CRC-32C that becomes zero after a zero byte.
const beforeZero = 0x56bd1943

// SetChecksum sets FlagChecksum and the checksum of the complete packet b, for fabrics that do not detect damaged
// packets.
func SetChecksum(b []byte) {
	b[4] |= byte(FlagChecksum)
	binary.LittleEndian.PutUint32(b[12:], checksum(b))
}

// Verify checks the packet b after ParseHeader: a checksum must match if it is present, and it must be present if
// required. docs/protocol §2.4.
func Verify(b []byte, required bool) error {
	if Flags(b[4])&FlagChecksum == 0 {
		if required {
			return ErrChecksum
		}
		return nil
	}
	if binary.LittleEndian.Uint32(b[12:]) != checksum(b) {
		return ErrChecksum
	}
	return nil
}

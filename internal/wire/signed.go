package wire

import (
	"encoding/binary"
	"math/bits"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A signed packet (docs/protocol §29, package transport/signed): a header with the signature of its sender, and then
// the packet.
//
//	 0       1       2       3       4       5       6       7
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	| magic "Fg"    |version| node  |            time, s            |   0
//	+-------+-------+-------+-------+-------+-------+-------+-------+
//	|                            counter                            |   8
//	+---------------------------------------------------------------+
//	|                             salt                              |  16
//	+---------------------------------------------------------------+
//	|                    signature, 64 bytes ...                    |  24
//	+---------------------------------------------------------------+
//	| path: 16 bytes for each level of the tree below its root ...  |  88
//	+---------------------------------------------------------------+
//	| the packet ...                                                |
//	+---------------------------------------------------------------+
const (
	signedMagic0, signedMagic1 = 'F', 'g'
	// SignedVersion is the version of signed packets.
	SignedVersion = 1
	// SignedLen is the number of bytes before the path.
	SignedLen = 88
	// SignedNodeLen is the length of a node of the tree.
	SignedNodeLen = 16
	// SignedDepth is the maximum number of levels of a tree below its root.
	SignedDepth = 7
	// MaxSignedTrain is the maximum number of packets with one signature.
	MaxSignedTrain = 1 << SignedDepth
	// SignedOverhead is the maximum number of bytes that a signature adds to a packet.
	SignedOverhead = SignedLen + SignedDepth*SignedNodeLen

	atSignedTime    = 4
	atSignedCounter = 8
	atSignedSalt    = 16
	atSignature     = 24
)

// Signed is a parsed signed packet. Its slices point into the packet.
type Signed struct {
	// Node is the position of the packet in the tree: the root is 1, and the children of n are 2n and 2n+1.
	Node      uint8
	Time      uint32 // seconds since 1970
	Counter   uint64 // of the train, in its stream
	Salt      []byte // 8 bytes
	Signature []byte // 64 bytes
	Path      []byte // the sibling of the packet's node, the sibling of its parent, and so on
	Packet    []byte
}

// Depth returns the number of levels from the root to the packet's node.
func (s *Signed) Depth() int { return SignedNodeDepth(s.Node) }

// SignedNodeDepth returns the number of levels from the root to a node; node is not 0.
func SignedNodeDepth(node uint8) int { return bits.Len8(node) - 1 }

// SignedHead returns the number of bytes before a packet at that depth of the tree.
func SignedHead(depth int) int { return SignedLen + depth*SignedNodeLen }

// IsSigned reports whether b begins as a signed packet does, of any version.
func IsSigned(b []byte) bool {
	return len(b) >= 3 && b[0] == signedMagic0 && b[1] == signedMagic1
}

// ParseSigned parses a signed packet, without verification. It returns ErrForeign for other packets, ErrVersion for
// another version, and ErrMalformed.
func ParseSigned(b []byte) (s Signed, err error) {
	switch {
	case !IsSigned(b):
		return s, ErrForeign
	case b[2] != SignedVersion:
		return s, ErrVersion
	case len(b) < SignedLen || b[3] == 0:
		return s, ErrMalformed
	}
	head := SignedHead(SignedNodeDepth(b[3]))
	if len(b) < head+HeaderLen {
		return s, ErrMalformed
	}
	return Signed{
		Node: b[3], Time: binary.LittleEndian.Uint32(b[atSignedTime:]),
		Counter: binary.LittleEndian.Uint64(b[atSignedCounter:]),
		Salt:    b[atSignedSalt:atSignature:atSignature], Signature: b[atSignature:SignedLen:SignedLen],
		Path: b[SignedLen:head:head], Packet: b[head:len(b):len(b)],
	}, nil
}

// PutSigned writes s without its signature, path and packet to b, which has SignedLen bytes or more.
func PutSigned(b []byte, s *Signed) {
	b[0], b[1], b[2], b[3] = signedMagic0, signedMagic1, SignedVersion, s.Node
	binary.LittleEndian.PutUint32(b[atSignedTime:], s.Time)
	binary.LittleEndian.PutUint64(b[atSignedCounter:], s.Counter)
	copy(b[atSignedSalt:atSignature], s.Salt)
}

// Stream returns the stream in the header of packet b, of any version. b has HeaderLen bytes or more.
func Stream(b []byte) (of events.Instance, tag uint32) {
	return events.Instance{Publisher: events.ID(binary.LittleEndian.Uint64(b[16:])),
		Epoch: events.ID(binary.LittleEndian.Uint64(b[24:]))}, binary.LittleEndian.Uint32(b[8:])
}

// Content returns the packet in the signed packet b, without verification, or b itself if it is not signed.
// docs/protocol §29.9.
func Content(b []byte) []byte {
	if !IsSigned(b) {
		return b
	}
	if s, err := ParseSigned(b); err == nil {
		return s.Packet
	}
	return b
}

package wire

import (
	"encoding/binary"
	"math/bits"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A signed packet (docs/protocol §29, package transport/signed): the proof of its sender, and then the packet.
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
	// SignedLen is what is before the path.
	SignedLen = 88
	// SignedNodeLen is the length of a node of the tree.
	SignedNodeLen = 16
	// SignedDepth is how many levels below its root a tree has at most.
	SignedDepth = 7
	// MaxSignedTrain is how many packets one signature is for, at most.
	MaxSignedTrain = 1 << SignedDepth
	// SignedOverhead is how much longer a packet may be by its signature.
	SignedOverhead = SignedLen + SignedDepth*SignedNodeLen

	atSignedTime    = 4
	atSignedCounter = 8
	atSignedSalt    = 16
	atSignature     = 24
)

// Signed is what stands before a packet that is signed. Its slices point into the packet.
type Signed struct {
	// Node is the packet's place in the tree: of the root 1, and of the children of n 2n and 2n+1.
	Node      uint8
	Time      uint32 // seconds since 1970
	Counter   uint64 // of the train, in its stream
	Salt      []byte // 8 bytes
	Signature []byte // 64 bytes
	Path      []byte // the node beside the packet's, that beside its parent, and so on
	Packet    []byte
}

// Depth is how many levels below the root the packet's node is.
func (s *Signed) Depth() int { return SignedNodeDepth(s.Node) }

// SignedNodeDepth is how many levels below the root a node is, which is not 0.
func SignedNodeDepth(node uint8) int { return bits.Len8(node) - 1 }

// SignedHead is what is before a packet of a tree of that depth, in bytes.
func SignedHead(depth int) int { return SignedLen + depth*SignedNodeLen }

// IsSigned reports whether b begins as a signed packet does, of any version.
func IsSigned(b []byte) bool {
	return len(b) >= 3 && b[0] == signedMagic0 && b[1] == signedMagic1
}

// ParseSigned reads a signed packet. It verifies nothing. The error is ErrForeign for what is none,
// ErrVersion for one of another version, and ErrMalformed.
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

// PutSigned writes all of s but its signature, path and packet to b, which has SignedLen bytes or more.
func PutSigned(b []byte, s *Signed) {
	b[0], b[1], b[2], b[3] = signedMagic0, signedMagic1, SignedVersion, s.Node
	binary.LittleEndian.PutUint32(b[atSignedTime:], s.Time)
	binary.LittleEndian.PutUint64(b[atSignedCounter:], s.Counter)
	copy(b[atSignedSalt:atSignature], s.Salt)
}

// Stream is which stream a packet says that it is of, of whichever version. It has HeaderLen bytes.
func Stream(b []byte) (of events.Instance, tag uint32) {
	return events.Instance{Publisher: events.ID(binary.LittleEndian.Uint64(b[16:])),
		Epoch: events.ID(binary.LittleEndian.Uint64(b[24:]))}, binary.LittleEndian.Uint32(b[8:])
}

// Content is the packet in a signed one, without verification, and b itself if it is not signed.
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

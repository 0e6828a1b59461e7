package signed

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// The tree over the packets of a train (docs/protocol §29.3). Each node has a number: 1 for the root, 2n and 2n+1 for
// the children of node n.

// node is a node of the tree: the first bytes of a SHA-256.
type node [wire.SignedNodeLen]byte

const (
	saltLen      = 8
	signatureLen = 64
	leafMark     = 0
	innerMark    = 1
)

// hasher hashes nodes, without allocations. It belongs to one goroutine at a time.
type hasher struct {
	h   hash.Hash
	pre [2 + saltLen]byte
	sum [sha256.Size]byte
}

func newHasher() *hasher { return &hasher{h: sha256.New()} }

// leaf is the node of a packet.
func (x *hasher) leaf(salt []byte, number uint8, packet []byte) node {
	x.pre[0], x.pre[1] = leafMark, number
	copy(x.pre[2:], salt)
	x.h.Reset()
	x.h.Write(x.pre[:])
	x.h.Write(packet)
	return node(x.h.Sum(x.sum[:0]))
}

// inner is the parent of two nodes.
func inner(salt []byte, left, right *node) node {
	var b [1 + saltLen + 2*wire.SignedNodeLen]byte
	b[0] = innerMark
	copy(b[1:], salt)
	copy(b[1+saltLen:], left[:])
	copy(b[1+saltLen+wire.SignedNodeLen:], right[:])
	h := sha256.Sum256(b[:])
	return node(h[:])
}

// above is the parent of node n with a number, and its sibling.
func above(salt []byte, number uint8, n, sibling *node) node {
	if number&1 == 0 {
		return inner(salt, n, sibling)
	}
	return inner(salt, sibling, n)
}

// statement is the signed data: the text, the depth of the tree, time, counter and salt of the train, and the root.
type statement [len(statementText) + 1 + 4 + 8 + saltLen + wire.SignedNodeLen]byte

const statementText = "fanfare signed 1"

func (s *statement) set(depth int, time uint32, counter uint64, salt []byte, root *node) {
	b := s[copy(s[:], statementText):]
	b[0] = byte(depth)
	binary.LittleEndian.PutUint32(b[1:], time)
	binary.LittleEndian.PutUint64(b[5:], counter)
	copy(b[13:], salt)
	copy(b[13+saltLen:], root[:])
}

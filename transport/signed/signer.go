package signed

import (
	"crypto/ed25519"
	crand "crypto/rand"
	"fmt"
	"io"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/transport"
)

// Signer signs the packets of one bus with one key. Any goroutine may call NewSender and Close.
type Signer struct {
	key    ed25519.PrivateKey
	random io.Reader
	now    func() time.Time

	mu       sync.Mutex
	counters map[int]*atomic.Uint64 // under mu: counters of trains, by group
	memory   map[*Sender][]byte     // under mu: the memory that they send from
}

// NewSigner returns a Signer with key. random provides salts, nil is crypto/rand.Reader. now is the clock, nil is
// time.Now.
func NewSigner(key ed25519.PrivateKey, random io.Reader, now func() time.Time) (*Signer, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("the signing key has %d bytes: it must have %d", len(key), ed25519.PrivateKeySize)
	}
	if random == nil {
		random = crand.Reader
	}
	if now == nil {
		now = time.Now
	}
	return &Signer{key: key, random: random, now: now, counters: make(map[int]*atomic.Uint64),
		memory: make(map[*Sender][]byte)}, nil
}

// treeBytes bounds the bytes that are signed together when packets are large: enough to make a signature's cost small.
const treeBytes = 192 << 10

// Capabilities returns the capabilities of a transport with signed packets: packets are shorter by the signature, and a
// train has as many packets as one signature covers, which may be several trains of the transport.
func Capabilities(c transport.Capabilities) transport.Capabilities {
	c.MaxTrain = wire.MaxSignedTrain
	c.MaxTrainBytes = max(treeBytes, c.MaxTrainBytes)
	if full := c.MaxTrainBytes / c.PacketSize; full > 0 {
		c.MaxTrainBytes -= full * wire.SignedOverhead
	}
	c.MaxPacket -= wire.SignedOverhead
	c.PacketSize -= wire.SignedOverhead
	return c
}

// Free frees the memory of all senders, when the transport has ended and no sender is used.
func (s *Signer) Free(t transport.Transport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, mem := range s.memory {
		t.Free(mem)
	}
	clear(s.memory)
}

// counter returns the counter of trains to a group, shared by its senders.
func (s *Signer) counter(group int) *atomic.Uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counters[group]
	if c == nil {
		c = new(atomic.Uint64)
		s.counters[group] = c
	}
	return c
}

// tree has reusable memory for signing the trains of one sender.
type tree struct {
	*hasher
	nodes [2 * wire.MaxSignedTrain]node
	salt  [saltLen]byte
	text  statement
}

// depthOf is the number of levels below the root in a tree over n packets.
func depthOf(n int) int { return bits.Len(uint(n - 1)) }

// sign completes a train of packets in mem, each after the room for its proof: packet i at i*stride, with lens[i] bytes
// including the proof.
func (t *tree) sign(s *Signer, counter uint64, mem []byte, stride int, lens []uint16) error {
	if _, err := io.ReadFull(s.random, t.salt[:]); err != nil {
		return fmt.Errorf("signed: random bytes: %w", err)
	}
	depth := depthOf(len(lens))
	head, first := wire.SignedHead(depth), 1<<depth
	for i := range lens {
		t.nodes[first+i] = t.leaf(t.salt[:], uint8(first+i), mem[i*stride+head:i*stride+int(lens[i])])
	}
	clear(t.nodes[first+len(lens) : 2*first]) // leaves without a packet
	for i := first - 1; i > 0; i-- {
		t.nodes[i] = inner(t.salt[:], &t.nodes[2*i], &t.nodes[2*i+1])
	}
	at := uint32(s.now().Unix())
	t.text.set(depth, at, counter, t.salt[:], &t.nodes[1])
	signature := ed25519.Sign(s.key, t.text[:])
	for i := range lens {
		b := mem[i*stride:]
		wire.PutSigned(b, &wire.Signed{Node: uint8(first + i), Time: at, Counter: counter, Salt: t.salt[:]})
		b = b[wire.SignedLen-signatureLen:]
		b = b[copy(b, signature):]
		for n := first + i; n > 1; n >>= 1 {
			b = b[copy(b, t.nodes[n^1][:]):]
		}
	}
	return nil
}

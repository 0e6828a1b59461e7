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

// Signer signs what one bus sends, with one key. NewSender and Close may be called by any goroutine.
type Signer struct {
	key    ed25519.PrivateKey
	random io.Reader
	now    func() time.Time

	mu       sync.Mutex
	counters map[int]*atomic.Uint64 // under mu: of trains, by group
	memory   map[*Sender][]byte     // under mu: that they send from
}

// NewSigner returns a Signer with that key. random provides salts; nil is crypto/rand.Reader. now is
// the time of day; nil is time.Now.
func NewSigner(key ed25519.PrivateKey, random io.Reader, now func() time.Time) (*Signer, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, fmt.Errorf("a signing key has %d bytes: it must have %d", len(key), ed25519.PrivateKeySize)
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

// treeBytes is how much is signed at once where packets are large, in bytes: there is enough of it then to
// make up for a signature.
const treeBytes = 192 << 10

// Capabilities are those of a transport with signed packets: packets are shorter by the signature, and
// a train has as many packets as one signature covers, which may be several trains of the transport.
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

// Free gives the memory of all senders back to a transport that has ended. None of them is used any more.
func (s *Signer) Free(t transport.Transport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, mem := range s.memory {
		t.Free(mem)
	}
	clear(s.memory)
}

// counter counts the trains to a group, also of several senders.
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

// tree signs trains of one sender: it is what would be allocated for each.
type tree struct {
	*hasher
	nodes [2 * wire.MaxSignedTrain]node
	salt  [saltLen]byte
	text  statement
}

// depthOf is how many levels the tree over n packets has below its root.
func depthOf(n int) int { return bits.Len(uint(n - 1)) }

// sign completes a train of n packets in mem, each behind the room for what proves it: the i-th at
// i*stride, with lens[i] bytes in all.
func (t *tree) sign(s *Signer, counter uint64, mem []byte, stride int, lens []uint16) error {
	if _, err := io.ReadFull(s.random, t.salt[:]); err != nil {
		return fmt.Errorf("signed: random bytes: %w", err)
	}
	depth := depthOf(len(lens))
	head, first := wire.SignedHead(depth), 1<<depth
	for i := range lens {
		t.nodes[first+i] = t.leaf(t.salt[:], uint8(first+i), mem[i*stride+head:i*stride+int(lens[i])])
	}
	clear(t.nodes[first+len(lens) : 2*first]) // no packet stands there
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

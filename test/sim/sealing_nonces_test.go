package sim

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/transport/sealed"
)

// nonces are all nonces with which the nodes of a run have sealed packets, including strangers, over all lives of
// each, whose clock is set at each beginning, and over copies of their memory (clones). With one key, salt and nonce
// there may be only one packet, though it may be sent repeatedly. 2^33 packets: transport/sealed,
// TestBillionsOfPackets. docs/protocol §27.5.
type nonces struct {
	seed  maphash.Seed
	seen  map[usedNonce]uint64 // hash of the packet
	lives map[int]int          // of each node
	total *nonceCount          // over all runs; nil: not counted
}

// usedNonce must be unique: the key, which is derived from a secret and a salt, and the nonce.
type usedNonce struct {
	keyset *sealed.Keyset
	key    uint32
	salt   [12]byte
	nonce  [12]byte
}

// nonceCount counts nonces, restarts, copies, and packets sealed by copies.
type nonceCount struct{ nonces, restarts, clones, cloned atomic.Int64 }

func newNonces() *nonces {
	return &nonces{seed: maphash.MakeSeed(), seen: make(map[usedNonce]uint64), lives: make(map[int]int)}
}

// add records a packet, and reports an error if another one has its nonce.
func (n *nonces) add(set *sealed.Keyset, p []byte, report func(error)) {
	x, ok := sealed.Parse(p)
	if !ok {
		report(fmt.Errorf("the packet is not sealed: %x", p))
		return
	}
	u := usedNonce{keyset: set, key: x.Key, salt: x.Salt}
	binary.LittleEndian.PutUint64(u.nonce[:], x.Train)
	binary.LittleEndian.PutUint32(u.nonce[8:], x.Counter)
	hash := maphash.Bytes(n.seed, p)
	was, used := n.seen[u]
	switch {
	case used && was != hash:
		report(fmt.Errorf("two packets have salt %x and nonce %x", u.salt, u.nonce))
	case !used:
		n.seen[u] = hash
		if n.total != nil {
			n.total.nonces.Add(1)
		}
	}
}

// begin records that a node begins a life, and returns its number, from 1 on.
func (n *nonces) begin(node int) int {
	n.lives[node]++
	if n.lives[node] > 1 && n.total != nil {
		n.total.restarts.Add(1)
	}
	return n.lives[node]
}

// Runs detect the reused nonces of nodes whose random bytes are the same in each life.
func TestReusedNonceIsDetectedInRuns(t *testing.T) {
	mustDetectReuse(t, func(k *keys) { k.random = func() io.Reader { return rand.NewChaCha8([32]byte{}) } })
}

// mustDetectReuse fails unless some runs of nodes changed by spoil detect a reused nonce.
func mustDetectReuse(t *testing.T, spoil func(*keys)) {
	t.Helper()
	found := 0
	for seed := uint64(1); seed <= 20 && found == 0; seed++ {
		var reported error
		o := drawSealed(seed, func(err error) { reported = err })
		spoil(o.Sealing.(*keys))
		Run(o) // its result is irrelevant
		if reported != nil && strings.Contains(reported.Error(), "two packets have salt") {
			found++
		}
	}
	if found == 0 {
		t.Error("none of 20 runs detects it")
	}
}

// A nonce of two packets under one key is detected. Under another key, or for a repeated packet, it is valid.
func TestReusedNonceIsDetected(t *testing.T) {
	packet := func(train, content byte) []byte {
		p := make([]byte, sealed.Overhead+1)
		copy(p, "Fs\x01")
		p[32], p[40] = train, content
		return p
	}
	var found error
	n, one, other := newNonces(), new(sealed.Keyset), new(sealed.Keyset)
	add := func(set *sealed.Keyset, p []byte) error {
		found = nil
		n.add(set, p, func(err error) { found = err })
		return found
	}
	for i, err := range []error{add(one, packet(1, 1)), add(one, packet(2, 2)), add(one, packet(1, 1)), add(other, packet(1, 2))} {
		if err != nil {
			t.Errorf("adding packet %d: %v", i, err)
		}
	}
	if add(one, packet(1, 2)) == nil || add(one, []byte("Ff open")) == nil {
		t.Error("two packets with one nonce, or a packet that is not sealed, are not detected")
	}
}

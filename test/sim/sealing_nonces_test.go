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

// nonces are all that the nodes of a run have sealed packets with, strangers too: over lives of each, whose clock is set at
// each beginning, and over copies of what they have in memory (clones). Of one key, salt and nonce there may be one packet only;
// it may be sent again, which is no news. 2^33 packets: transport/sealed, TestBillionsOfPackets. docs/protocol §27.5.
type nonces struct {
	seed  maphash.Seed
	seen  map[usedNonce]uint64 // the packet's hash
	lives map[int]int          // of each node
	total *nonceCount          // of all runs; nil: nobody counts
}

// usedNonce is what must not be used twice: the key that is derived from a secret and a salt, and the nonce.
type usedNonce struct {
	of    *sealed.Keyset
	key   uint32
	salt  [12]byte
	nonce [12]byte
}

// nonceCount is how many different ones there were, after how many restarts, and of how many copies, which sealed how many
// packets of their own.
type nonceCount struct{ nonces, restarts, clones, cloned atomic.Int64 }

func newNonces() *nonces {
	return &nonces{seed: maphash.MakeSeed(), seen: make(map[usedNonce]uint64), lives: make(map[int]int)}
}

// add notes a packet, and tells if another one has its nonce.
func (n *nonces) add(set *sealed.Keyset, p []byte, tell func(error)) {
	x, ok := sealed.Parse(p)
	if !ok {
		tell(fmt.Errorf("what is sent is not sealed: %x", p))
		return
	}
	u := usedNonce{of: set, key: x.Key, salt: x.Salt}
	binary.LittleEndian.PutUint64(u.nonce[:], x.Train)
	binary.LittleEndian.PutUint32(u.nonce[8:], x.Counter)
	hash := maphash.Bytes(n.seed, p)
	was, used := n.seen[u]
	switch {
	case used && was != hash:
		tell(fmt.Errorf("two packets have salt %x and nonce %x", u.salt, u.nonce))
	case !used:
		n.seen[u] = hash
		if n.total != nil {
			n.total.nonces.Add(1)
		}
	}
}

// begin notes that a node begins a life, and returns which, from 1 on.
func (n *nonces) begin(node int) int {
	n.lives[node]++
	if n.lives[node] > 1 && n.total != nil {
		n.total.restarts.Add(1)
	}
	return n.lives[node]
}

// Nodes whose random bytes begin again with each of their lives use nonces twice, and the runs find it.
func TestNonceTwiceIsFoundInRuns(t *testing.T) {
	nonceIsFoundTwice(t, func(k *keys) { k.random = func() io.Reader { return rand.NewChaCha8([32]byte{}) } })
}

// nonceIsFoundTwice fails unless some runs whose nodes seal as spoil makes them find a nonce of two packets.
func nonceIsFoundTwice(t *testing.T, spoil func(*keys)) {
	t.Helper()
	found := 0
	for seed := uint64(1); seed <= 20 && found == 0; seed++ {
		var told error
		o := drawSealed(seed, func(err error) { told = err })
		spoil(o.Sealing.(*keys))
		Run(o) // what else becomes of it is no matter
		if told != nil && strings.Contains(told.Error(), "two packets have salt") {
			found++
		}
	}
	if found == 0 {
		t.Error("no run of 20 finds it")
	}
}

// One nonce for two packets is found, under one key; under another key, and for a packet that is sent again, it is none.
func TestNonceTwiceIsFound(t *testing.T) {
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
			t.Errorf("packet %d: %v", i, err)
		}
	}
	if add(one, packet(1, 2)) == nil || add(one, []byte("Ff open")) == nil {
		t.Error("two packets have one nonce, or one is not sealed, and nobody says so")
	}
}

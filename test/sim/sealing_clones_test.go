package sim

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// clones are copies of what nodes have in memory, as of a virtual machine that is cloned while it runs: each goes on from
// there beside its node, and seals packets of its own. A copy is made by doing again all that its node did in this life, with
// the same random bytes: that is deterministic, and so must be what it seals up to then. docs/protocol §27.5.
type clones struct {
	draw   *rand.Rand // what is copied when, and what the copies send
	random io.Reader  // of copies, once they are ones
	same   bool       // they draw the random bytes of their nodes instead: a fault, which runs have to find
	of     map[int][]*keyNode
}

const (
	// maxCloneSteps is how much a node may have done to be copied: a copy does all of it again.
	maxCloneSteps = 60
	// maxClones bounds the copies of one life.
	maxClones = 3
)

func newClones(seed uint64) *clones {
	return &clones{
		draw: rand.New(rand.NewPCG(seed, 0xc1)), random: rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), 0xc1}),
		of: make(map[int][]*keyNode),
	}
}

// history is what a node has done in its life: what it has drawn, and what it has sealed.
type history struct {
	random io.Reader
	drawn  []byte
	steps  []cloneStep
}

// cloneStep is packets that a node has sealed together.
type cloneStep struct {
	now     time.Duration
	unicast bool
	packets [][]byte
}

func (h *history) Read(p []byte) (int, error) {
	n, err := h.random.Read(p)
	if len(h.steps) <= maxCloneSteps {
		h.drawn = append(h.drawn, p[:n]...)
	}
	return n, err
}

func (h *history) add(now time.Duration, unicast bool, packets [][]byte) {
	if len(h.steps) > maxCloneSteps {
		return
	}
	s := cloneStep{now: now, unicast: unicast}
	for _, p := range packets {
		s.packets = append(s.packets, bytes.Clone(p))
	}
	h.steps = append(h.steps, s)
}

// beside copies a node that has sealed packets, now and then, and has the copies of it that there are send others.
func (c *clones) beside(k *keys, now time.Duration, node int, unicast bool, packets [][]byte) {
	n := k.nodes[node]
	if h := n.history; len(h.steps) <= maxCloneSteps && len(c.of[node]) < maxClones && c.draw.IntN(20) == 0 {
		c.of[node] = append(c.of[node], c.copy(k, node, n))
	}
	for _, x := range c.of[node] {
		if c.draw.IntN(2) == 0 {
			continue
		}
		others := slices.Clone(packets)
		for i := range others {
			others[i] = append(bytes.Clone(others[i]), byte(c.draw.Uint32()))
		}
		x.seal(now, unicast, others, k.tell)
		if k.nonces.total != nil {
			k.nonces.total.cloned.Add(int64(len(others)))
		}
	}
}

func (c *clones) copy(k *keys, node int, n *keyNode) *keyNode {
	later := c.random
	if c.same {
		later = rand.NewChaCha8([32]byte{})
		n.history.random = rand.NewChaCha8([32]byte{})
	}
	x := k.openWith(node, 0, k.ours, io.MultiReader(bytes.NewReader(n.history.drawn), later))
	for _, s := range n.history.steps {
		x.seal(s.now, s.unicast, s.packets, k.tell) // a nonce of its node with another packet is found here
	}
	if k.nonces.total != nil {
		k.nonces.total.clones.Add(1)
	}
	return x
}

// Copies that draw the random bytes of their nodes use nonces twice, and the runs find it.
func TestClonesThatDrawTheSameAreFound(t *testing.T) {
	nonceIsFoundTwice(t, func(k *keys) { k.clones.same = true })
}

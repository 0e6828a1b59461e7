package sim

import (
	"bytes"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// clones are copies of the memory of nodes, as of a virtual machine that is cloned while it runs: each
// continues next to its node, and seals packets of its own. A copy repeats everything that its node did in
// this life, with the same random bytes: sealing is deterministic, so it seals the same. docs/protocol §27.5.
type clones struct {
	draw   *rand.Rand // when which node is copied, and what copies send
	random io.Reader  // random bytes of copies
	same   bool       // they get the same random bytes as their nodes: a fault that runs must detect
	byNode map[int][]*keyNode
}

const (
	// maxCloneSteps is the maximum number of steps that a copy repeats.
	maxCloneSteps = 60
	// maxClones is the maximum number of copies of a life.
	maxClones = 3
)

func newClones(seed uint64) *clones {
	return &clones{
		draw: rand.New(rand.NewPCG(seed, 0xc1)), random: rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), 0xc1}),
		byNode: make(map[int][]*keyNode),
	}
}

// history is what a node has drawn and sealed in its life.
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

// step sometimes copies a node that has sealed packets, and lets its existing copies send other packets.
func (c *clones) step(k *keys, now time.Duration, node int, unicast bool, packets [][]byte) {
	n := k.nodes[node]
	if h := n.history; len(h.steps) <= maxCloneSteps && len(c.byNode[node]) < maxClones && c.draw.IntN(20) == 0 {
		c.byNode[node] = append(c.byNode[node], c.copy(k, node, n))
	}
	for _, x := range c.byNode[node] {
		if c.draw.IntN(2) == 0 {
			continue
		}
		others := slices.Clone(packets)
		for i := range others {
			others[i] = append(bytes.Clone(others[i]), byte(c.draw.Uint32()))
		}
		x.seal(now, unicast, others, k.report)
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
		x.seal(s.now, s.unicast, s.packets, k.report) // detects a nonce of the node with another packet
	}
	if k.nonces.total != nil {
		k.nonces.total.clones.Add(1)
	}
	return x
}

// Runs detect the reused nonces of copies that get the same random bytes as their nodes.
func TestClonesWithEqualRandomBytesAreDetected(t *testing.T) {
	mustDetectReuse(t, func(k *keys) { k.clones.same = true })
}

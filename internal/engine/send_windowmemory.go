package engine

import (
	"fmt"
	"sync"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/transport"
)

// windowMemory is the packet memory that the send windows of a bus share, beyond the minimum of each. Blocks of one
// train are allocated from the transport as needed. When none is left a publication reuses its own oldest block. A
// publication with more than an equal share then gives back a block for each that another one was refused.
type windowMemory struct {
	t     transport.Transport
	alloc func(blocks, bytes int) ([]byte, error)
	renew func(block []byte) []byte // reliable.SenderConfig.Renew

	mu     sync.Mutex
	left   int      // under mu: bytes that may still be allocated from the transport
	chunks [][]byte // under mu: as the transport allocated them
	free   [][]byte // under mu
	most   int      // bytes in total
	short  int      // under mu: blocks refused, less those granted since
}

// chunkBlocks is how many blocks are allocated from the transport at a time.
const chunkBlocks = 32

func newWindowMemory(t transport.Transport, bytes int) *windowMemory {
	m := &windowMemory{t: t, left: bytes, most: bytes}
	if s, ok := t.(transport.Sharer); ok {
		m.alloc, m.renew = s.AllocBlocks, s.Renew
	} else {
		m.alloc = func(blocks, bytes int) ([]byte, error) { return t.Alloc(blocks * bytes) }
	}
	return m
}

// take returns a block of block bytes, or nil, for one of the publications, which has has bytes.
func (m *windowMemory) take(block, has, publications int) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	rich := has >= m.most/max(1, publications)
	if rich && m.scarce(block) {
		return nil // others need it
	}
	if len(m.free) == 0 && !m.more(block) {
		if !rich {
			m.short = min(m.short+1, m.most/block)
		}
		return nil
	}
	if !rich {
		m.short = max(0, m.short-1)
	}
	n := len(m.free) - 1
	b := m.free[n]
	m.free = m.free[:n]
	return b
}

// scarce reports whether more blocks were refused than are available. Under mu.
func (m *windowMemory) scarce(block int) bool { return m.short > len(m.free)+m.left/block }

// more allocates a chunk from the transport. Under mu.
func (m *windowMemory) more(block int) bool {
	n := min(chunkBlocks, m.left/block)
	if n == 0 {
		return false
	}
	chunk, err := m.alloc(n, block)
	if err != nil {
		return false // a smaller window is no failure
	}
	m.left -= n * block
	m.chunks = append(m.chunks, chunk)
	for ; len(chunk) >= block; chunk = chunk[block:] {
		m.free = append(m.free, chunk[:block:block])
	}
	return true
}

// give takes back a block.
func (m *windowMemory) give(block []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = append(m.free, block)
}

// wanted reports whether one of the publications, which has bytes bytes, is to return a block.
func (m *windowMemory) wanted(block, bytes, publications int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.scarce(block) && bytes > m.most/max(1, publications)
}

// close frees all memory. No writer is left.
func (m *windowMemory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.chunks {
		m.t.Free(c)
	}
	m.chunks, m.free, m.left = nil, nil, 0
}

// packetMemory is the packet memory of a publication. Under its lock.
type packetMemory struct {
	block int      // size of a block
	own   [][]byte // as the transport allocated it
	grown int      // blocks of windowMemory
}

// bytes returns the total.
func (m *packetMemory) bytes() int {
	n := m.grown * m.block
	for _, b := range m.own {
		n += len(b)
	}
	return n
}

// free frees the publication's own memory.
func (m *packetMemory) free(t transport.Transport) {
	for _, b := range m.own {
		t.Free(b)
	}
	m.own = nil
}

// grant gives w a block to write into: a new one if the window may grow, otherwise its oldest. Under mu.
func (p *Publication) grant(w *topics.Writer) {
	if p.s.Wants() {
		p.grow()
	}
	if !p.s.Grant(w.Packets) {
		p.s.Short(p.l.now())
	}
}

// grow enlarges the window by a block. It returns false if there is none. Under mu.
func (p *Publication) grow() bool {
	if p.life.closed != nil {
		return false
	}
	m := &p.memory
	b := p.l.windows.take(m.block, m.grown*m.block, len(p.l.publications()))
	if b == nil {
		return false
	}
	p.s.AddMemory(b)
	m.grown++
	return true
}

// stateBlocks is how many blocks the sender of state uses (reliable.SenderConfig.Blocks).
const stateBlocks = 2

// newState makes the sender of state, which writes into packets of its own. Under mu, which it releases so that
// messages can be published while the memory is allocated and registered.
func (p *Publication) newState() error {
	p.mu.Unlock()
	mem, err := p.l.windows.alloc(stateBlocks, p.memory.block)
	p.mu.Lock()
	switch {
	case err != nil:
		return fmt.Errorf("packet memory for state: %w", err)
	case p.life.closed != nil:
		p.l.t.Free(mem)
		return p.life.closed
	case p.states.s != nil: // another publisher made it meanwhile
		p.l.t.Free(mem)
		return nil
	}
	p.memory.own = append(p.memory.own, mem)
	p.s.AddMemory(mem)
	p.states.s = p.m.NewState(p.l.now(), p.l.cfg.StateShare, func(w *topics.Writer) bool {
		p.grant(w)
		return !w.Packets.Full()
	})
	return nil
}

// shrink gives back blocks that others need more. Under mu.
func (p *Publication) shrink() {
	m := &p.memory
	for m.grown > 0 && p.life.closed == nil && p.l.windows.wanted(m.block, m.grown*m.block, len(p.l.publications())) {
		b := p.s.GiveBack()
		if b == nil {
			return
		}
		m.grown--
		p.l.windows.give(b)
	}
}

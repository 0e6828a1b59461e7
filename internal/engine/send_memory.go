package engine

import (
	"fmt"
	"sync"

	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// windowMemory is the packet memory that the send windows of a bus share, beyond what each needs at least: in blocks of
// one train, which are taken from the transport as they are needed. When there are no more a publication uses its own
// oldest block again. One that has more than an equal share then gives back a block for each that another was refused.
type windowMemory struct {
	t     transport.Transport
	alloc func(blocks, bytes int) ([]byte, error)
	renew func(block []byte) []byte // reliable.SenderConfig.Renew

	mu     sync.Mutex
	left   int      // under mu: bytes that may still be taken from the transport
	chunks [][]byte // under mu: as the transport gave them
	free   [][]byte // under mu
	most   int      // bytes in all
	short  int      // under mu: blocks that were refused, less those had since
}

// chunkBlocks is how many blocks are taken from the transport at a time.
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

// take returns a block of that many bytes to one that has so many bytes, of so many publications, or nil.
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

// scarce reports whether more blocks were refused than can be had. Under mu.
func (m *windowMemory) scarce(block int) bool { return m.short > len(m.free)+m.left/block }

// more takes a chunk from the transport. Under mu.
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

// give returns a block.
func (m *windowMemory) give(block []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free = append(m.free, block)
}

// wanted reports whether one that has that many bytes, of so many publications, is to give a block back.
func (m *windowMemory) wanted(block, bytes, publications int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.scarce(block) && bytes > m.most/max(1, publications)
}

// close returns all memory to the transport, when no writer is left.
func (m *windowMemory) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.chunks {
		m.t.Free(c)
	}
	m.chunks, m.free, m.left = nil, nil, 0
}

// packetMemory is what a publication has of packet memory. Under its lock.
type packetMemory struct {
	block int      // bytes of a block
	own   [][]byte // as the transport gave it
	grown int      // blocks of the bus's windowMemory
}

// bytes is all of it.
func (m *packetMemory) bytes() int {
	n := m.grown * m.block
	for _, b := range m.own {
		n += len(b)
	}
	return n
}

// free gives its own back to the transport.
func (m *packetMemory) free(t transport.Transport) {
	for _, b := range m.own {
		t.Free(b)
	}
	m.own = nil
}

// grant gives w a block to write into: one that enlarges the window if it is smaller than
// it may be, or else its oldest. Under mu.
func (p *Publication) grant(w *reliable.Writer) {
	if p.s.Wants() {
		p.grow()
	}
	if !p.s.Grant(w) {
		p.s.Short(p.l.now())
	}
}

// grow enlarges the window by a block. It reports false where there is none. Under mu.
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

// stateBlocks is what the sender of state takes of packet memory (reliable.SenderConfig.Blocks).
const stateBlocks = 2

// newState makes the sender of state, which writes into packets of its own. Under mu, which it gives up for a while:
// messages are published while the memory is made, and registered.
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
	case p.states.s != nil: // another publisher's, made meanwhile
		p.l.t.Free(mem)
		return nil
	}
	p.memory.own = append(p.memory.own, mem)
	p.s.AddMemory(mem)
	p.states.s = p.s.NewState(p.l.now(), func(w *reliable.Writer) bool {
		p.grant(w)
		return !w.Full()
	})
	return nil
}

// shrink gives blocks back that others need more. Under mu.
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

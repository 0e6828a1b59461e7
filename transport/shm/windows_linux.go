package shm

import (
	"fmt"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// windows is the memory in which publishers write packets. Under Transport.mu.
type windows struct {
	rows    int      // allocated rows of chunks in the file
	private [][]byte // blocks outside the file, used when no chunk was free
}

// Alloc implements transport.Transport. Send copies packets from this memory.
func (t *Transport) Alloc(bytes int) ([]byte, error) {
	mem, err := t.arena.Alloc(bytes)
	if err != nil {
		return nil, fmt.Errorf("shm: %w", err)
	}
	return mem, nil
}

// AllocBlocks implements transport.Sharer: in the file, if blocks are chunks and it has room.
func (t *Transport) AllocBlocks(blocks, bytes int) ([]byte, error) {
	if t.closing.Load() {
		return nil, errClosed
	}
	if mem := t.allocRow(blocks, bytes); mem != nil {
		return mem, nil
	}
	return t.Alloc(blocks * bytes)
}

func (t *Transport) allocRow(blocks, bytes int) []byte {
	if blocks < 1 || bytes != chunkBytes {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	first, ok := t.pool.allocRow(blocks)
	if !ok {
		return nil
	}
	if err := t.own.backRow(first, blocks); err != nil {
		t.pool.owned -= blocks
		for i := range blocks {
			t.pool.drop(first + uint32(i))
		}
		t.pool.room(0)
		return nil
	}
	t.pool.room(t.own.room())
	t.windows.rows++
	at := chunkAt(first)
	return t.own.mem[at : at+blocks*chunkBytes : at+blocks*chunkBytes]
}

// Renew implements transport.Sharer. If a stopped reader holds the chunk the window moves to another: the sender does
// not wait.
func (t *Transport) Renew(block []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	chunk, _, ok := t.own.chunkOf(block)
	if !ok || t.pool.refs[chunk] == 1 {
		return block
	}
	for _, p := range *t.known.Load() {
		if !p.gone.Load() {
			t.reap(p)
		}
	}
	if t.pool.refs[chunk] == 1 {
		return block
	}
	if other, err := t.allocChunk(chunkBytes); err == nil {
		t.pool.drop(chunk)
		return t.own.chunk(other, chunkBytes)
	}
	mem, err := sys.Alloc(len(block))
	if err != nil {
		return nil
	}
	t.windows.private = append(t.windows.private, mem)
	t.pool.owned--
	t.pool.drop(chunk)
	return mem
}

// Free implements transport.Transport.
func (t *Transport) Free(mem []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, _, ok := t.own.chunkOf(mem); !ok {
		t.arena.Free(mem)
		return
	}
	if t.windows.rows--; t.done.Load() {
		t.endWindows()
	}
}

// endWindows frees the file's memory after the end of the transport, when no Sender writes to it. Under mu.
func (t *Transport) endWindows() {
	if t.windows.rows > 0 {
		return
	}
	t.own.unmap()
	for _, mem := range t.windows.private {
		sys.Free(mem)
	}
	t.windows.private = nil
}

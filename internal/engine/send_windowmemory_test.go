package engine

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// counting is a transport that counts its packet memory in bytes.
type counting struct {
	transport.Transport
	allocated, freed atomic.Int64 // publishers and the loop's hellos allocate
}

func (t *counting) Alloc(n int) ([]byte, error) {
	t.allocated.Add(int64(n))
	return make([]byte, n), nil
}
func (t *counting) Free(b []byte) { t.freed.Add(int64(len(b))) }

func TestWindowMemory(t *testing.T) {
	const block = 1000
	tr := &counting{}
	m := newWindowMemory(tr, (chunkBlocks+2)*block)
	var got [][]byte
	for b := m.take(block, 0, 2); b != nil; b = m.take(block, 0, 2) {
		if len(b) != block || cap(b) != block {
			t.Fatalf("a block has %d bytes and capacity %d, want %d", len(b), cap(b), block)
		}
		got = append(got, b)
		if len(got) == 1 && tr.allocated.Load() != chunkBlocks*block {
			t.Errorf("%d bytes allocated for one block, want %d", tr.allocated.Load(), chunkBlocks*block)
		}
	}
	if len(got) != chunkBlocks+2 || tr.allocated.Load() != (chunkBlocks+2)*block {
		t.Errorf("%d blocks in %d bytes, want %d in %d", len(got), tr.allocated.Load(), chunkBlocks+2, (chunkBlocks+2)*block)
	}
	if !m.wanted(block, int(tr.allocated.Load()), 2) || m.wanted(block, int(tr.allocated.Load())/2, 2) {
		t.Error("wanted must be true for a publication with more than its share after a refusal, and false for one with less")
	}
	m.give(got[0])
	if m.wanted(block, int(tr.allocated.Load()), 2) {
		t.Error("wanted returned true after one block was refused and one returned, want false")
	}
	if b := m.take(block, 0, 2); b == nil || m.take(block, 0, 2) != nil {
		t.Error("after one block was returned, want take to return one block and then nil")
	}
	if m.give(got[1]); m.take(block, 0, 2) == nil {
		t.Error("take returned nil after a block was returned, want the block")
	}
	m.take(block, 0, 2)
	m.take(block, 0, 2) // refused twice
	if m.give(got[2]); m.take(block, int(tr.allocated.Load()), 2) != nil || m.take(block, 0, 2) == nil {
		t.Error("want no block for a publication with more than its share, and one for a publication with less")
	}
	if m.close(); tr.freed.Load() != tr.allocated.Load() {
		t.Errorf("%d bytes freed, want %d", tr.freed.Load(), tr.allocated.Load())
	}
}

// Publications share the memory of windows. The first uses all of it, and returns what the second needs. At the end all is
// freed.
func TestPublicationsShareWindowMemory(t *testing.T) {
	tr := new(counting)
	inner, err := mem.Open(mem.Config{Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	tr.Transport = inner
	const window = 2 << 20
	l := start(tr, Config{WindowBytes: window, WindowsBytes: window})
	var grown [2]int
	ctx := context.Background()
	var pubs []*Publication
	for group := range 2 {
		p, err := l.Publication(group)
		if err != nil {
			t.Fatal(err)
		}
		pubs = append(pubs, p)
	}
	for range 2 {
		for _, p := range pubs {
			topic, err := p.Topic("x")
			if err != nil {
				t.Fatal(err)
			}
			for range 2 * window / 1000 {
				if err := p.Publish(ctx, topic, make([]byte, 1000), true); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, p := range pubs {
			p.mu.Lock()
			grown[i] = p.memory.grown * p.memory.block
			p.mu.Unlock()
		}
		if sum := grown[0] + grown[1]; sum > window {
			t.Errorf("windows of %v bytes, want at most %d in all", grown, window)
		}
	}
	if grown[1] < window/4 {
		t.Errorf("windows of %v bytes, want at least %d for the second", grown, window/4)
	}
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
	<-l.shutdown.done
	if tr.freed.Load() != tr.allocated.Load() {
		t.Errorf("%d bytes freed, want %d", tr.freed.Load(), tr.allocated.Load())
	}
}

package engine

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// counting is a transport whose packet memory is counted.
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
			t.Fatalf("a block of %d bytes, room for %d", len(b), cap(b))
		}
		got = append(got, b)
		if len(got) == 1 && tr.allocated.Load() != chunkBlocks*block {
			t.Errorf("%d bytes taken for one block", tr.allocated.Load())
		}
	}
	if len(got) != chunkBlocks+2 || tr.allocated.Load() != (chunkBlocks+2)*block {
		t.Errorf("%d blocks of %d bytes", len(got), tr.allocated.Load())
	}
	if !m.wanted(block, int(tr.allocated.Load()), 2) || m.wanted(block, int(tr.allocated.Load())/2, 2) {
		t.Error("a publication returns what others lack if it has more than its share, and only then")
	}
	m.give(got[0])
	if m.wanted(block, int(tr.allocated.Load()), 2) {
		t.Error("one block was refused and one given back")
	}
	if b := m.take(block, 0, 2); b == nil || m.take(block, 0, 2) != nil {
		t.Error("one block, and not two, can be had again")
	}
	if m.give(got[1]); m.take(block, 0, 2) == nil {
		t.Error("what was given back cannot be had")
	}
	m.take(block, 0, 2)
	m.take(block, 0, 2) // refused, and once more
	if m.give(got[2]); m.take(block, int(tr.allocated.Load()), 2) != nil || m.take(block, 0, 2) == nil {
		t.Error("a publication with more than its share takes what others lack")
	}
	if m.close(); tr.freed.Load() != tr.allocated.Load() {
		t.Errorf("%d bytes freed of %d", tr.freed.Load(), tr.allocated.Load())
	}
}

// Publications share the memory of windows: the first takes it all, and gives back what
// the second needs. All of it is freed in the end.
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
			t.Errorf("windows of %v bytes, more than %d", grown, window)
		}
	}
	if grown[1] < window/4 {
		t.Errorf("windows of %v bytes: the second had no share", grown)
	}
	if err := l.Close(ctx); err != nil {
		t.Fatal(err)
	}
	<-l.shutdown.done
	if tr.freed.Load() != tr.allocated.Load() {
		t.Errorf("%d bytes freed of %d", tr.freed.Load(), tr.allocated.Load())
	}
}

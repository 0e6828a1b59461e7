// Package arena tracks the packet memory that users of a transport have allocated. The memory outlives the transport,
// because its user may still write to it.
package arena

import (
	"net"
	"sync"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// Arena is a set of off-heap allocations. Any goroutine may call its methods. The zero value is empty.
type Arena struct {
	mu     sync.Mutex
	closed bool
	mem    map[*byte][]byte
}

// Alloc returns bytes of zeroed, page-aligned memory; net.ErrClosed after Freeze.
func (a *Arena) Alloc(bytes int) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, net.ErrClosed
	}
	mem, err := sys.Alloc(bytes)
	if err != nil {
		return nil, err
	}
	if a.mem == nil {
		a.mem = make(map[*byte][]byte)
	}
	a.mem[&mem[0]] = mem
	return mem, nil
}

// Free frees memory that Alloc returned, also after Freeze. It ignores other memory.
func (a *Arena) Free(mem []byte) {
	if len(mem) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if mine, ok := a.mem[&mem[0]]; ok {
		delete(a.mem, &mem[0])
		sys.Free(mine)
	}
}

// Freeze ends Alloc.
func (a *Arena) Freeze() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
}

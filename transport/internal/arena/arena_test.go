package arena

import (
	"errors"
	"net"
	"testing"
)

func TestArena(t *testing.T) {
	var a Arena
	one, err := a.Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	two, err := a.Alloc(5000)
	if err != nil {
		t.Fatal(err)
	}
	one[99], two[4999] = 1, 2
	a.Free(one)
	a.Free(nil)
	a.Free(make([]byte, 10)) // not from this arena
	a.Freeze()
	if _, err := a.Alloc(1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Alloc after Freeze: %v, want %v", err, net.ErrClosed)
	}
	two[0] = 3 // still allocated
	a.Free(two)
	a.Free(two) // already freed: must not unmap the address, which may be reused
	if len(a.mem) != 0 {
		t.Errorf("%d allocations left, want none", len(a.mem))
	}
}

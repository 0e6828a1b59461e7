package sys

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Populate allocates all whole pages of its argument, and no others, and keeps their contents.
func TestPopulate(t *testing.T) {
	page := unix.Getpagesize()
	mem, err := Alloc(8 * page)
	if err != nil {
		t.Fatal(err)
	}
	defer Free(mem)
	resident := func() (n int) {
		there := make([]byte, 8)
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[0])), uintptr(len(mem)), uintptr(unsafe.Pointer(&there[0]))); errno != 0 {
			t.Fatalf("mincore: %v", errno)
		}
		for i, b := range there {
			n |= int(b&1) << i
		}
		return n
	}
	mem[3*page] = 9
	for _, c := range []struct{ from, to, want int }{
		{page + 1, 2*page - 1, 0b1000}, {page + 1, 3 * page, 0b1100}, {0, 0, 0b1100}, {5 * page, 7 * page, 0b1101100},
	} {
		Populate(mem[c.from:c.to])
		if got := resident(); got != c.want {
			t.Errorf("%d to %d: pages %b, want %b", c.from, c.to, got, c.want)
		}
	}
	if mem[3*page] != 9 {
		t.Error("Populate changed the contents")
	}
}

package sys

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"
	"unsafe"
)

// TestHugePages checks that memory that fills huge pages is aligned to them and marked for them (proc_pid_smaps(5),
// VmFlags hg), and that other memory has the requested size.
func TestHugePages(t *testing.T) {
	_, err := os.Stat("/sys/kernel/mm/transparent_hugepage")
	known := err == nil // else the kernel was built without huge pages
	for _, c := range []struct {
		bytes int
		huge  bool
	}{
		{4096, false}, {1 << 20, false}, {hugePage * 3 / 4, true}, {hugePage*3/4 - 1, false},
		{hugePage - 4096, true}, {hugePage, true}, {hugePage + 1, false}, {3*hugePage - 100, true}, {2*hugePage + 4096, false},
	} {
		mem, err := Alloc(c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		if len(mem) != c.bytes || cap(mem) != c.bytes {
			t.Errorf("memory of %d bytes: length %d, capacity %d, want both equal", c.bytes, len(mem), cap(mem))
		}
		mem[0], mem[c.bytes-1] = 1, 2
		at := uintptr(unsafe.Pointer(&mem[0]))
		flags := vmFlags(t, at)
		if flags == "" {
			t.Errorf("%d bytes at %#x are in no mapping", c.bytes, at)
		}
		if huge := at%hugePage == 0 && (!known || strings.Contains(flags, " hg")); c.huge && !huge {
			t.Errorf("%d bytes: at %#x, flags%s: want a huge page's alignment, and flag hg", c.bytes, at, flags)
		}
		Free(mem)
	}
}

// TestFreeUnmapsAll checks that Free unmaps all that Alloc mapped, also the part before the returned slice.
func TestFreeUnmapsAll(t *testing.T) {
	size := func() int {
		b, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Fatal(err)
		}
		var pages int
		if _, err := fmt.Sscan(string(b), &pages); err != nil {
			t.Fatal(err)
		}
		return pages * os.Getpagesize()
	}
	before := size()
	for range 200 {
		mem, err := Alloc(hugePage - 4096)
		if err != nil {
			t.Fatal(err)
		}
		Free(mem)
	}
	// A leak of the parts around the blocks would be 400 MiB; the Go heap may grow by less.
	if after := size(); after-before > 200<<20 {
		t.Errorf("the address space grew from %d to %d bytes, want at most 200 MiB more", before, after)
	}
}

// vmFlags returns the flags of the mapping that holds an address.
func vmFlags(t *testing.T, at uintptr) string {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inside := false
	for s := bufio.NewScanner(f); s.Scan(); {
		var from, to uintptr
		if n, _ := fmt.Sscanf(s.Text(), "%x-%x ", &from, &to); n == 2 {
			inside = from <= at && at < to
		}
		if flags, ok := strings.CutPrefix(s.Text(), "VmFlags:"); ok && inside {
			return flags
		}
	}
	return ""
}

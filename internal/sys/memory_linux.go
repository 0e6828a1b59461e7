package sys

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the requested page size: the smallest huge page of x86-64, and of arm64 with pages of 4 KiB. With other
// sizes only the alignment is wasted.
const hugePage = 2 << 20

// alloc maps memory. A size that fills huge pages well is aligned to them, and the kernel is asked for huge pages
// (madvise(2), MADV_HUGEPAGE). The first access to a page took 13 to 28 µs on a virtual machine; with small pages there
// are some 500 times as many, all while a publisher starts. Without a free huge page the kernel uses small ones.
func alloc(bytes int) ([]byte, error) {
	rounded := mapped(bytes)
	room := rounded
	if rounded%hugePage == 0 {
		room += hugePage // to align it to a huge page
	}
	at, err := unix.MmapPtr(-1, 0, nil, uintptr(room), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("sys: map %d bytes: %w", room, err)
	}
	if rounded%hugePage == 0 {
		before := int(-uintptr(at) % hugePage)
		unmap(at, before)
		at = unsafe.Add(at, before)
		unmap(unsafe.Add(at, rounded), room-rounded-before)
		// It fails in a kernel built without huge pages, which then uses small ones.
		_ = unix.Madvise(unsafe.Slice((*byte)(at), rounded), unix.MADV_HUGEPAGE)
	}
	return unsafe.Slice((*byte)(at), rounded)[:bytes:bytes], nil
}

// mapped returns the size to map for that many bytes: whole huge pages, if at most a quarter of one is wasted.
func mapped(bytes int) int {
	if rounded := (bytes + hugePage - 1) / hugePage * hugePage; rounded-bytes <= hugePage/4 {
		return rounded
	}
	return bytes
}

func free(mem []byte) { unmap(unsafe.Pointer(unsafe.SliceData(mem)), mapped(cap(mem))) }

// unmap releases pages. It fails only for memory that alloc did not map: a bug.
func unmap(at unsafe.Pointer, bytes int) {
	if bytes == 0 {
		return
	}
	if err := unix.MunmapPtr(at, uintptr(bytes)); err != nil {
		panic("sys: free of memory that Alloc did not return: " + err.Error())
	}
}

// populate makes the kernel allocate the pages (madvise(2), MADV_POPULATE_WRITE, since Linux 5.14). On a virtual
// machine that took 1 µs a page and 5 µs at the first access, against 15 to 20 µs for a page that is allocated at its
// first access.
func populate(mem []byte) {
	page := uintptr(unix.Getpagesize())
	at := unsafe.Pointer(unsafe.SliceData(mem))
	before := int(-uintptr(at) % page)
	if rounded := (len(mem) - before) / int(page) * int(page); rounded > 0 {
		// Best effort: it fails in older kernels, and without free memory.
		_ = unix.Madvise(mem[before:before+rounded], unix.MADV_POPULATE_WRITE)
	}
}

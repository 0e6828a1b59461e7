package sys

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the page size to ask for: the smallest huge page of x86-64, and of arm64 with pages of 4
// KiB. With other sizes only the alignment is wasted.
const hugePage = 2 << 20

// alloc maps memory. What fills huge pages well begins at one, and the kernel is asked to back it by
// them (madvise(2), MADV_HUGEPAGE). A page is made when it is touched first, which took
// 13 to 28 µs on a virtual machine: some 500 times as often with small ones, just when a
// publisher begins. Where the kernel has no huge page to give it gives small ones.
func alloc(bytes int) ([]byte, error) {
	rounded := mapped(bytes)
	room := rounded
	if rounded%hugePage == 0 {
		room += hugePage // to begin where a huge page may
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
		// A kernel that was built without huge pages refuses, and does without.
		_ = unix.Madvise(unsafe.Slice((*byte)(at), rounded), unix.MADV_HUGEPAGE)
	}
	return unsafe.Slice((*byte)(at), rounded)[:bytes:bytes], nil
}

// mapped is how much to map for so many bytes: whole huge pages, if at most a quarter of one is wasted.
func mapped(bytes int) int {
	if rounded := (bytes + hugePage - 1) / hugePage * hugePage; rounded-bytes <= hugePage/4 {
		return rounded
	}
	return bytes
}

func free(mem []byte) { unmap(unsafe.Pointer(unsafe.SliceData(mem)), mapped(cap(mem))) }

// unmap gives pages back. The kernel refuses only what alloc did not map: a bug.
func unmap(at unsafe.Pointer, bytes int) {
	if bytes == 0 {
		return
	}
	if err := unix.MunmapPtr(at, uintptr(bytes)); err != nil {
		panic("sys: free of memory that Alloc did not return: " + err.Error())
	}
}

// populate has the kernel make the pages (madvise(2), MADV_POPULATE_WRITE, since Linux 5.14): 1 µs a page, and
// 5 when it is touched, on a virtual machine where a page that is made when it is touched takes 15 to 20.
func populate(mem []byte) {
	page := uintptr(unix.Getpagesize())
	at := unsafe.Pointer(unsafe.SliceData(mem))
	before := int(-uintptr(at) % page)
	if rounded := (len(mem) - before) / int(page) * int(page); rounded > 0 {
		// A kernel that does not know it, or has no memory, changes nothing.
		_ = unix.Madvise(mem[before:before+rounded], unix.MADV_POPULATE_WRITE)
	}
}

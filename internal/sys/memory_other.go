//go:build !unix

package sys

import "unsafe"

const pageBytes = 4096

// alloc returns a pointer-free slice of the Go heap: the collector does not scan it either.
func alloc(bytes int) ([]byte, error) {
	mem := make([]byte, bytes+pageBytes-1)
	skip := int(-uintptr(unsafe.Pointer(&mem[0])) % pageBytes)
	return mem[skip : skip+bytes : skip+bytes], nil
}

func free([]byte) {}

func populate([]byte) {}

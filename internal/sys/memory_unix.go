//go:build unix && !linux

package sys

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func alloc(bytes int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("sys: map %d bytes: %w", bytes, err)
	}
	return mem, nil
}

func free(mem []byte) {
	// Munmap fails only for a slice that Mmap did not return: a bug in the caller.
	if err := unix.Munmap(mem[:cap(mem)]); err != nil {
		panic("sys: free of memory that Alloc did not return: " + err.Error())
	}
}

func populate([]byte) {}

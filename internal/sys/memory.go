package sys

import "fmt"

// Alloc returns zeroed, page-aligned memory of that many bytes. Pages cost nothing until their first access. Release it
// with Free.
func Alloc(bytes int) ([]byte, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("sys: cannot allocate %d bytes", bytes)
	}
	return alloc(bytes)
}

// Free releases memory; mem must be the slice that Alloc returned. Accessing it afterwards faults. Free(nil) does
// nothing.
func Free(mem []byte) {
	if mem != nil {
		free(mem)
	}
}

// Populate makes the system allocate the pages of mem now, all at once, instead of one by one at their first access.
// mem may also be on the Go heap. It does nothing where the system does not support it.
func Populate(mem []byte) { populate(mem) }

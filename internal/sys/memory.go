package sys

import "fmt"

// Alloc returns bytes of zeroed, page-aligned memory. Pages cost nothing until
// they are touched. Give it back with Free.
func Alloc(bytes int) ([]byte, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("sys: cannot allocate %d bytes", bytes)
	}
	return alloc(bytes)
}

// Free gives back exactly the slice that Alloc returned. Using it afterwards is a fault. Free of nil does nothing.
func Free(mem []byte) {
	if mem != nil {
		free(mem)
	}
}

// Populate has the system make the pages of mem now, at once, and not one by one when each is
// touched first. mem may also be of the Go heap. It does nothing where the system cannot.
func Populate(mem []byte) { populate(mem) }

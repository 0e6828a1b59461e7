//go:build !unix

package offheap

// Elsewhere a pointer-free slice of the Go heap stands in: the collector does
// not scan it either.
func alloc(bytes int) ([]byte, error) { return make([]byte, bytes), nil }

func free([]byte) {}

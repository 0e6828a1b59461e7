package prefetch

import "testing"

// A prefetch beyond mapped memory does not fault.
func TestBeyond(t *testing.T) {
	b := make([]byte, 1)
	for n := 0; n < 1<<20; n = 2*n + 1 {
		ToWrite(&b[0], n)
		ToRead(&b[0], n)
	}
}

//go:build amd64 || arm64

package gid

import "testing"

func TestSelfDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Self() }); n != 0 {
		t.Errorf("Self makes %v allocations, want none", n)
	}
}

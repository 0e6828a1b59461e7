// Package prefetch asks the processor for memory that will be used soon. Nothing but time
// depends on it.
package prefetch

// Lines has the lines of the cache fetched that hold the n bytes from p on, which may lie
// beyond what p belongs to: it reads nothing. (PREFETCHT0, AMD64 Architecture Programmer's
// Manual, volume 3.)
//
//go:noescape
func Lines(p *byte, n int)

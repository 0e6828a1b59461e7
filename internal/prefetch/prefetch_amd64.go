// Package prefetch asks the processor for memory that will be written soon. Nothing but time
// depends on it.
package prefetch

// ToWrite has the lines of the cache that hold the n bytes from p on fetched to be written, so that no
// other processor has them. They may lie beyond what p belongs to: it reads nothing. (PREFETCHW, AMD64 Architecture
// Programmer's Manual, volume 3; a processor without it takes it for a NOP.)
//
//go:noescape
func ToWrite(p *byte, n int)

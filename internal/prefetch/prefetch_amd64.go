// Package prefetch asks the processor for memory that will be written or read soon. Nothing but time depends on it.
package prefetch

// ToWrite has the lines of the cache that hold the n bytes from p on fetched to be written, so that no
// other processor has them. They may lie beyond what p belongs to: it reads nothing. (PREFETCHW, AMD64 Architecture
// Programmer's Manual, volume 3. Processors that run Windows of 64 bits since 8.1 have it; all but the first ones of
// Intel with 64 bits, of 2004, take it at least for a NOP.)
//
//go:noescape
func ToWrite(p *byte, n int)

// ToRead has the lines of the cache that hold the n bytes from p on fetched to be read. They may lie beyond what p
// belongs to. (PREFETCHlevel, AMD64 Architecture Programmer's Manual, volume 3.)
//
//go:noescape
func ToRead(p *byte, n int)

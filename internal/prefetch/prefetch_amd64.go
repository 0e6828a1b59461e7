// Package prefetch asks the processor to load memory that will soon be written or read into its cache. It affects only
// speed.
package prefetch

// ToWrite prefetches the cache lines of the n bytes from p for writing, so that no other processor has them. They may
// be outside the object of p, because it reads nothing. (PREFETCHW, AMD64 Architecture Programmer's Manual, volume 3.
// 64-bit Windows requires it since 8.1; on all 64-bit processors except Intel's first ones, of 2004, it is at least a
// NOP.)
//
//go:noescape
func ToWrite(p *byte, n int)

// ToRead prefetches the cache lines of the n bytes from p for reading. They may be outside the object of p.
// (PREFETCHlevel, AMD64 Architecture Programmer's Manual, volume 3.)
//
//go:noescape
func ToRead(p *byte, n int)

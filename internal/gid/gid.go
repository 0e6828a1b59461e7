//go:build amd64 || arm64

// Package gid identifies goroutines.
//
// Go reports the current goroutine only in the text of a stack trace, which takes 20 to 40 µs in a handler with its
// deep stack. So this package uses the address of the goroutine's descriptor, which is in a register or in thread-local
// storage (go.dev/doc/asm, "Architecture-specific details"). It is only compared, never dereferenced.
package gid

// Self returns a number that no other goroutine has while the calling one runs. It is not 0. Goroutines that start
// later may have the same number.
func Self() uint64

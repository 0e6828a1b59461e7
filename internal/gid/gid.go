//go:build amd64 || arm64

// Package gid identifies goroutines.
//
// Go says which goroutine runs in the text of a stack trace only. To make one takes 20 to 40 µs in a handler, which
// lies deep. So this takes what the runtime itself goes by: the address of the goroutine's descriptor, which is in
// a register or in thread-local storage (go.dev/doc/asm, "Architecture-specific details"). It is only compared,
// never followed.
package gid

// Self is a number that no other goroutine has as long as the calling one runs. It is not 0. Goroutines that begin
// later may have it again.
func Self() uint64

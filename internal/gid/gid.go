//go:build amd64 || arm64

// Package gid tells goroutines apart.
//
// Go says which goroutine runs in the text of a stack trace only, and makes all of that: 20 to 40 µs in a handler, which
// lies deep. So this is what the runtime itself goes by: the address of the goroutine's descriptor, in a register or
// in thread-local storage (go.dev/doc/asm, "Architecture-specific details"). Nothing is read from there.
package gid

// Self is a number that is the calling goroutine's alone as long as it runs. It is not 0. Goroutines that come later may
// have it again.
func Self() uintptr

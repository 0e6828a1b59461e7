//go:build !amd64 && !arm64

// Package gid identifies goroutines.
package gid

import (
	"bytes"
	"runtime"
	"strconv"
)

// Self is a number that no other goroutine has: the one that the runtime prints in stack traces. It is not 0. To make a
// trace takes 20 to 40 µs in a handler, which lies deep.
func Self() uint64 {
	var buf [64]byte
	return number(buf[:runtime.Stack(buf[:], false)])
}

// number is the goroutine of a trace, which begins "goroutine 42 [running]:". The runtime counts with 64 bits, on
// 32-bit processors too.
func number(trace []byte) uint64 {
	text := bytes.TrimPrefix(trace, []byte("goroutine "))
	digits, _, _ := bytes.Cut(text, []byte(" "))
	id, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		panic("gid: the runtime's stack traces begin in another way: " + string(trace))
	}
	return id
}

//go:build !linux

package udp

// prepare sets options of a socket before it is bound. Elsewhere than on Linux a
// socket gets only what it has joined itself.
func prepare(fd uintptr, is6, group bool, index int) {}

//go:build !linux

package udp

// prepare sets options of a socket before it is bound. On systems other than Linux a socket receives
// only groups that it has joined itself.
func prepare(fd uintptr, is6, group bool, index int) {}

//go:build fanfare_plainudp

package udp

import "github.com/fanfaremq/fanfare/internal/sys"

// prepare sets options of a socket before it is bound. By default a socket on Linux receives the groups
// that any socket of the host has joined, and for IPv6 only the group counts, not the interface (see
// onlyOwnGroups in the implementation for Linux).
func prepare(fd uintptr, is6, group bool, index int) {
	if group {
		_ = sys.OnlyOwnGroups(int(fd), is6, index)
	}
}

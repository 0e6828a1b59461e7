//go:build fanfare_plainudp

package udp

import "github.com/fanfaremq/fanfare/internal/sys"

// prepare sets options of a socket before it is bound. On Linux a socket gets
// what any socket of the host has joined unless told not to, and IPv6 looks at
// the group only, not at the interface (see onlyOwnGroups in the own path).
func prepare(fd uintptr, is6, group bool, index int) {
	if group {
		_ = sys.OnlyOwnGroups(int(fd), is6, index)
	}
}

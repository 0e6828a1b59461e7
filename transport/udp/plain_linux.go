//go:build fanfare_plainudp

package udp

import "golang.org/x/sys/unix"

// prepare sets options of a socket before it is bound. On Linux a socket gets
// what any socket of the host has joined unless told not to, and IPv6 looks at
// the group only, not at the interface (see onlyOwnGroups in the own path).
func prepare(fd uintptr, is6, group bool, index int) {
	switch {
	case !group:
	case is6:
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_ALL, 0)
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, index)
	default:
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
	}
}

//go:build !fanfare_plainudp

package udp

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// probeGSO reports whether the kernel knows UDP_SEGMENT (since Linux 4.18). Its
// default for the socket stays off; each train carries its own size. Whether the
// path can do it shows when sending; see refusesGSO.
func probeGSO(fd int) bool {
	return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 0) == nil
}

// refusesGSO reports whether errno means that trains cannot be sent this way,
// though their packets can (udp_send_skb in net/ipv4/udp.c and net/ipv6/udp.c):
//
//   - EIO: the device has no checksum offload, or the route goes through IPsec;
//   - EINVAL, and EMSGSIZE in newer kernels: a segment exceeds the path's MTU,
//     which was larger when the transport was opened.
func refusesGSO(errno syscall.Errno) bool {
	return errno == unix.EIO || errno == unix.EINVAL || errno == unix.EMSGSIZE
}

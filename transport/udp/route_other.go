//go:build !linux

package udp

import (
	"errors"
	"net"
	"net/netip"
	"syscall"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// routed is the interface of the host's route to a group, found by the source address of a connected socket. Connecting
// sends no packet. The error matches sys.ErrNoInterface if there is no route.
func routed(group netip.AddrPort) (*net.Interface, error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(group))
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != syscall.EMFILE && errno != syscall.ENFILE &&
		errno != syscall.ENOMEM && errno != syscall.ENOBUFS {
		return nil, sys.ErrNoInterface
	}
	if err != nil {
		return nil, err
	}
	src := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().WithZone("")
	conn.Close()
	return sys.FindInterface(src.String())
}

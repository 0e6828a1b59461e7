//go:build !linux

package udp

import (
	"net"
	"net/netip"

	"github.com/fanfaremq/fanfare/internal/netif"
)

// routed is the interface that the host's route to a group leads to, by the source address that
// a socket gets. To connect it sends nothing.
func routed(group netip.AddrPort) (*net.Interface, error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(group))
	if err != nil {
		return nil, err
	}
	src := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap().WithZone("")
	conn.Close()
	return netif.Find(src.String())
}

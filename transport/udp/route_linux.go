package udp

import (
	"net"
	"net/netip"

	"github.com/fanfaremq/fanfare/internal/linuxnet"
)

// routed is the interface that the host's route to a group leads to. Two interfaces may have
// one address, and a route may lead elsewhere than to the source address's: so the kernel is asked.
func routed(group netip.AddrPort) (*net.Interface, error) {
	index, err := linuxnet.RouteTo(group.Addr())
	if err != nil {
		return nil, err
	}
	return net.InterfaceByIndex(index)
}

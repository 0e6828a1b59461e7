package udp

import (
	"errors"
	"net"
	"net/netip"

	"github.com/fanfaremq/fanfare/internal/linuxnet"
	"github.com/fanfaremq/fanfare/internal/netif"
)

// routed is the interface that the host's route to a group leads to. Two interfaces may have
// one address, and a route may lead elsewhere than to the source address's: so the kernel is asked.
// The error matches netif.ErrNone where there is no route.
func routed(group netip.AddrPort) (*net.Interface, error) {
	index, err := linuxnet.RouteTo(group.Addr())
	if errors.Is(err, linuxnet.ErrNoRoute) {
		return nil, netif.ErrNone
	}
	if err != nil {
		return nil, err
	}
	return netif.ByIndex(index)
}

package udp

import (
	"errors"
	"net"
	"net/netip"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// routed is the interface of the host's route to a group. Two interfaces may have the same address, and a route may use
// another interface than that of the source address, so it asks the kernel. The error matches sys.ErrNoInterface if
// there is no route.
func routed(group netip.AddrPort) (*net.Interface, error) {
	index, err := sys.RouteTo(group.Addr())
	if errors.Is(err, sys.ErrNoRoute) {
		return nil, sys.ErrNoInterface
	}
	if err != nil {
		return nil, err
	}
	return sys.InterfaceByIndex(index)
}

package udp

import (
	"errors"
	"net"
	"net/netip"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// routed is the interface of the host's route to a group. Two interfaces may have one address, and a
// route may lead to another interface than the source address's: so the kernel is asked. The error
// matches sys.ErrNoInterface if there is no route.
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

package contenders

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// group is the destination of a baseline: a multicast address and the interface.
type group struct {
	addr  netip.AddrPort
	iface *net.Interface
	local netip.Addr // an IPv4 address of iface
}

// parseGroup parses the address and finds the interface.
func parseGroup(address, name string) (group, error) {
	var g group
	var err error
	if g.addr, err = netip.ParseAddrPort(address); err != nil || !g.addr.Addr().Is4() || !g.addr.Addr().IsMulticast() {
		return g, fmt.Errorf("%q is not an IPv4 multicast address with a port", address)
	}
	g.iface, g.local, err = Interface(name)
	return g, err
}

// Interface finds an interface, by its name or one of its addresses, and an IPv4 address of it. It
// is also used by bench/peers, a separate module.
func Interface(name string) (i *net.Interface, local netip.Addr, err error) {
	if i, err = sys.FindInterface(name); err != nil {
		return nil, local, err
	}
	addrs, err := sys.InterfaceAddrs(i)
	if err != nil {
		return nil, local, fmt.Errorf("addresses of %s: %w", i.Name, err)
	}
	if at := slices.IndexFunc(addrs, netip.Addr.Is4); at >= 0 {
		return i, addrs[at], nil
	}
	return nil, local, fmt.Errorf("interface %s has no IPv4 address, which the baselines require", i.Name)
}

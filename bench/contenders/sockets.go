package contenders

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// group is where a baseline sends: a multicast address, and the interface.
type group struct {
	addr  netip.AddrPort
	iface *net.Interface
	local netip.Addr // an IPv4 address of iface
}

// parseGroup reads the address and finds the interface, by its name or one of
// its addresses.
func parseGroup(address, name string) (group, error) {
	var g group
	var err error
	if g.addr, err = netip.ParseAddrPort(address); err != nil || !g.addr.Addr().Is4() || !g.addr.Addr().IsMulticast() {
		return g, fmt.Errorf("%q is no IPv4 multicast address with a port", address)
	}
	if g.iface, err = sys.FindInterface(name); err != nil {
		return g, err
	}
	g.local, err = LocalAddress(g.iface)
	return g, err
}

// LocalAddress is an IPv4 address of an interface. Package bench/peers, a module of its own, asks for it.
func LocalAddress(i *net.Interface) (netip.Addr, error) {
	addrs, err := sys.InterfaceAddrs(i)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("addresses of %s: %w", i.Name, err)
	}
	if at := slices.IndexFunc(addrs, netip.Addr.Is4); at >= 0 {
		return addrs[at], nil
	}
	return netip.Addr{}, fmt.Errorf("interface %s has no IPv4 address, which the baselines need", i.Name)
}

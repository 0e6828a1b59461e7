package contenders

import (
	"fmt"
	"net"
	"net/netip"
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
	if g.iface, err = findInterface(name); err != nil {
		return g, err
	}
	g.local, err = localAddress(g.iface)
	return g, err
}

// LocalAddress is an IPv4 address of an interface, which is named by its name or
// one of its addresses.
func LocalAddress(name string) (netip.Addr, error) {
	i, err := findInterface(name)
	if err != nil {
		return netip.Addr{}, err
	}
	return localAddress(i)
}

func localAddress(i *net.Interface) (netip.Addr, error) {
	addrs, err := i.Addrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("addresses of %s: %w", i.Name, err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("interface %s has no IPv4 address, which the baselines need", i.Name)
}

func findInterface(name string) (*net.Interface, error) {
	if i, err := net.InterfaceByName(name); err == nil {
		return i, nil
	}
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().String() == name {
				return &i, nil
			}
		}
	}
	return nil, fmt.Errorf("no interface is called %q, or has that address", name)
}

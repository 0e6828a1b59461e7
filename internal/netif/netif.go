// Package netif looks at the network interfaces of this host: their addresses as values
// of package net/netip, and which one a name means.
package netif

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Addrs are the addresses of an interface, without zones.
func Addrs(ifc *net.Interface) ([]netip.Addr, error) {
	list, err := ifc.Addrs()
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				addrs = append(addrs, addr.Unmap())
			}
		}
	}
	return addrs, nil
}

// Find is the interface of a name, or the one that has it as an address. Any address of
// loopback's network is loopback's.
func Find(name string) (*net.Interface, error) {
	addr, err := netip.ParseAddr(name)
	if err != nil {
		if ifc, err := net.InterfaceByName(name); err == nil {
			return ifc, nil
		}
		return nil, fmt.Errorf("no network interface is called %q: 'ip link' lists them", name)
	}
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for i := range all {
		addrs, err := Addrs(&all[i])
		if err != nil {
			return nil, err
		}
		if slices.Contains(addrs, addr.Unmap()) || all[i].Flags&net.FlagLoopback != 0 && addr.Unmap().IsLoopback() && addr.Unmap().Is4() {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("no network interface has address %v: 'ip address' lists them", addr)
}

// Loopback is the name of the loopback interface.
func Loopback() string {
	all, _ := net.Interfaces() // without any there is no loopback
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 {
			return i.Name
		}
	}
	return "lo"
}

package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport/internal/multicast"
)

// link is the interface that a transport uses, and its address there.
type link struct {
	index    int
	name     string
	mtu      int        // bytes
	addr     netip.Addr // source of packets; with a zone if link-local
	loopback bool
	running  bool // has a carrier (RUNNING in ip-link(8))
}

// findLink finds the interface for cfg, which has its defaults filled in.
func findLink(cfg *Config) (link, error) {
	is4 := cfg.Range.Addr().Is4()
	if cfg.Interface == "" {
		l, _, err := defaultLink(netip.AddrPortFrom(cfg.Range.Addr(), uint16(cfg.Port)), is4)
		return l, err
	}
	if addr, err := netip.ParseAddr(cfg.Interface); err == nil {
		return linkOfAddr(addr, is4)
	}
	ifc, err := sys.InterfaceByName(cfg.Interface)
	if errors.Is(err, sys.ErrNoInterface) {
		return link{}, fmt.Errorf("udp: there is no interface %q; this host has %s", cfg.Interface, linkNames())
	}
	if err != nil {
		return link{}, fmt.Errorf("udp: %w", err)
	}
	if ifc.Flags&net.FlagUp == 0 {
		return link{}, fmt.Errorf("udp: interface %s is down", ifc.Name)
	}
	addrs, err := sys.InterfaceAddrs(ifc)
	if err != nil {
		return link{}, fmt.Errorf("udp: %w", err)
	}
	l, ok := linkOf(ifc, addrs, is4)
	if !ok {
		return link{}, fmt.Errorf("udp: interface %s has no %s address; give it one, or use another interface", ifc.Name, family(is4))
	}
	return l, fit(ifc, is4)
}

// fit returns an error if an interface does not support multicast.
func fit(ifc *net.Interface, is4 bool) error {
	if err := multicast.Check(ifc, is4); err != nil {
		return fmt.Errorf("udp: %w", err)
	}
	return nil
}

func family(is4 bool) string {
	if is4 {
		return "IPv4"
	}
	return "IPv6"
}

// linkOfAddr finds the interface that has the address.
func linkOfAddr(addr netip.Addr, is4 bool) (link, error) {
	if addr.Is4() != is4 {
		return link{}, fmt.Errorf("udp: interface address %v does not fit %s groups", addr, family(is4))
	}
	ifc, addrs, err := withAddr(addr)
	if errors.Is(err, sys.ErrNoInterface) {
		return link{}, fmt.Errorf("udp: no interface has the address %v; this host has %s", addr, linkNames())
	}
	if err != nil {
		return link{}, fmt.Errorf("udp: %w", err)
	}
	l, _ := linkOf(ifc, addrs, is4)
	l.addr = zoned(addr.WithZone(""), l.name)
	return l, fit(ifc, is4)
}

// withAddr finds the interface that has an address, and returns all its addresses.
func withAddr(addr netip.Addr) (*net.Interface, []netip.Addr, error) {
	links, err := sys.Interfaces()
	if err != nil {
		return nil, nil, err
	}
	for i := range links {
		addrs, err := sys.InterfaceAddrs(&links[i])
		if err != nil {
			return nil, nil, err
		}
		if slices.Contains(addrs, addr.WithZone("")) && (addr.Zone() == "" || addr.Zone() == links[i].Name) {
			return &links[i], addrs, nil
		}
	}
	return nil, nil, sys.ErrNoInterface
}

// defaultLink is the interface of the host's route to the group, or the first usable one. to is the name of the route's
// interface, empty if there is no route; it differs from l if it does not support multicast.
func defaultLink(group netip.AddrPort, is4 bool) (l link, to string, err error) {
	ifc, err := routed(group)
	if err != nil && !errors.Is(err, sys.ErrNoInterface) {
		return link{}, "", fmt.Errorf("udp: look up the route to %v: %w", group.Addr(), err)
	}
	if err == nil {
		to = ifc.Name
		addrs, err := sys.InterfaceAddrs(ifc)
		if err != nil {
			return link{}, to, fmt.Errorf("udp: %w", err)
		}
		if l, ok := linkOf(ifc, addrs, is4); ok && ifc.Flags&net.FlagUp != 0 && multicast.Can(ifc) {
			return l, to, nil
		}
	}
	links, err := sys.Interfaces()
	if err != nil {
		return link{}, to, fmt.Errorf("udp: %w", err)
	}
	var lo link
	for i := range links {
		flags := links[i].Flags
		if flags&net.FlagUp == 0 {
			continue
		}
		addrs, err := sys.InterfaceAddrs(&links[i])
		if err != nil {
			return link{}, to, fmt.Errorf("udp: %w", err)
		}
		l, ok := linkOf(&links[i], addrs, is4)
		switch {
		case !ok:
		case l.loopback:
			if lo.name == "" {
				lo = l
			}
		case flags&net.FlagMulticast != 0:
			return l, to, nil
		}
	}
	if lo.name == "" {
		return link{}, to, fmt.Errorf("udp: no interface is up with an %s address; this host has %s", family(is4), linkNames())
	}
	return lo, to, nil
}

// linkOf describes an interface with addrs; ok is false if none is of the family. A global IPv6 address is preferred to
// a link-local one.
func linkOf(ifc *net.Interface, addrs []netip.Addr, is4 bool) (l link, ok bool) {
	l = link{index: ifc.Index, name: ifc.Name, mtu: ifc.MTU, loopback: ifc.Flags&net.FlagLoopback != 0,
		running: ifc.Flags&net.FlagRunning != 0}
	for _, a := range addrs {
		if a.Is4() == is4 && (!ok || l.addr.IsLinkLocalUnicast() && !a.IsLinkLocalUnicast()) {
			l.addr, ok = a, true
		}
	}
	l.addr = zoned(l.addr, l.name)
	return l, ok
}

// zoned adds the interface to a link-local IPv6 address, which is invalid without it.
func zoned(a netip.Addr, name string) netip.Addr {
	if a.Is6() && (a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() || a.IsInterfaceLocalMulticast()) {
		return a.WithZone(name)
	}
	return a
}

func linkNames() string {
	links, err := sys.Interfaces()
	if err != nil {
		return "interfaces that cannot be listed: " + err.Error()
	}
	var names []string
	for _, l := range links {
		if l.Flags&net.FlagUp != 0 {
			names = append(names, l.Name)
		}
	}
	if len(names) == 0 {
		return "none that is up"
	}
	return strings.Join(names, ", ")
}

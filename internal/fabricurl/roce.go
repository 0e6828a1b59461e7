package fabricurl

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"github.com/fanfaremq/fanfare/rdma/roce"
	"github.com/fanfaremq/fanfare/transport/rocenet"
)

// openRoCE opens RoCEv2 over sockets on an interface, or on the one that has the
// address.
func openRoCE(u *url.URL) (*Host, error) {
	c, err := rocenet.ParseDevice(u)
	if err != nil {
		return nil, &Error{Err: err}
	}
	cfg := roce.Config{Check: c.Check}
	name := c.Interface
	if name != "" {
		link, err := linkOf(name)
		if err != nil {
			return nil, err
		}
		cfg.Interfaces = []string{link}
		if a, err := netip.ParseAddr(name); err == nil {
			cfg.Addrs = []netip.Addr{a.Unmap()}
			name = link
		}
	}
	p, err := roce.Open(cfg)
	if err != nil {
		return nil, err
	}
	h, err := find(p, name)
	if err != nil {
		p.Close()
		return nil, err
	}
	h.close = func() { p.Close() }
	return h, nil
}

// linkOf is the name of the interface that name names, or has as an address.
func linkOf(name string) (string, error) {
	addr, err := netip.ParseAddr(name)
	if err != nil {
		if _, err := net.InterfaceByName(name); err != nil {
			return "", fmt.Errorf("no network interface is called %q: 'ip link' lists them", name)
		}
		return name, nil
	}
	links, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	for _, l := range links {
		addrs, err := l.Addrs()
		if err != nil {
			return "", err
		}
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			// Any address of loopback's network is one of its own.
			if ip, ok := netip.AddrFromSlice(n.IP); ok && (ip.Unmap() == addr.Unmap() || ip.IsLoopback() && n.Contains(addr.AsSlice())) {
				return l.Name, nil
			}
		}
	}
	return "", fmt.Errorf("no network interface has address %v: 'ip address' lists them", addr)
}

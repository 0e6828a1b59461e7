//go:build !linux || fanfare_plainudp

package udp

import (
	"cmp"
	"net"
	"net/netip"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// setupSend sets the interface and hop limit of multicast, and whether it is looped back to this host.
func setupSend(conn *net.UDPConn, ifc *net.Interface, cfg *Config) error {
	if cfg.Range.Addr().Is4() {
		p := ipv4.NewPacketConn(conn)
		return cmp.Or(p.SetMulticastInterface(ifc), p.SetMulticastTTL(cfg.ttl()), p.SetMulticastLoopback(!cfg.NoLoopback))
	}
	p := ipv6.NewPacketConn(conn)
	return cmp.Or(p.SetMulticastInterface(ifc), p.SetMulticastHopLimit(cfg.ttl()), p.SetMulticastLoopback(!cfg.NoLoopback))
}

// join makes conn a member of group. On Windows the receiving socket decides whether it gets packets of its own host,
// so that option is set here, too.
func join(conn *net.UDPConn, ifc *net.Interface, cfg *Config, group netip.Addr) error {
	addr := &net.UDPAddr{IP: group.AsSlice()}
	if group.Is4() {
		p := ipv4.NewPacketConn(conn)
		return cmp.Or(p.SetMulticastLoopback(!cfg.NoLoopback), p.JoinGroup(ifc, addr))
	}
	p := ipv6.NewPacketConn(conn)
	return cmp.Or(p.SetMulticastLoopback(!cfg.NoLoopback), p.JoinGroup(ifc, addr))
}

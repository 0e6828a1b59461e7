package testenv

import (
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Functions that change network interfaces, by netlink so that no tool is needed (rtnetlink(7)). They are for use in
// Namespace.

// link returns the interface with that name.
func link(t *testing.T, name string) netlink.Link {
	t.Helper()
	l, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatalf("interface %s: %v", name, err)
	}
	return l
}

// change calls f with an interface; what describes the change for the error.
func change(t *testing.T, name, what string, f func(netlink.Link) error) {
	t.Helper()
	if err := f(link(t, name)); err != nil {
		t.Fatalf("%s %s: %v", what, name, err)
	}
}

// LinkUp brings an interface up.
func LinkUp(t *testing.T, name string) {
	t.Helper()
	change(t, name, "bring up", netlink.LinkSetUp)
}

// LinkDown brings an interface down.
func LinkDown(t *testing.T, name string) {
	t.Helper()
	change(t, name, "bring down", netlink.LinkSetDown)
}

// LinkMulticast sets or clears the flag MULTICAST of an interface.
func LinkMulticast(t *testing.T, name string, on bool) {
	t.Helper()
	set := netlink.LinkSetMulticastOff
	if on {
		set = netlink.LinkSetMulticastOn
	}
	change(t, name, "set MULTICAST of", set)
}

// SetMTU sets the MTU of an interface, in bytes.
func SetMTU(t *testing.T, name string, mtu uint32) {
	t.Helper()
	change(t, name, "set MTU of", func(l netlink.Link) error { return netlink.LinkSetMTU(l, int(mtu)) })
}

// LinkIndex returns the index of an interface.
func LinkIndex(t *testing.T, name string) int {
	t.Helper()
	return link(t, name).Attrs().Index
}

// AddVeth makes a pair of connected interfaces (veth(4)). index is the index of the first; 0: any. It skips the test if
// the kernel does not support them.
func AddVeth(t *testing.T, name, peer string, index int) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Index = name, index
	veth := netlink.NewVeth(attrs)
	veth.PeerName = peer
	if err := netlink.LinkAdd(veth); err != nil {
		Skip(t, "this kernel does not support pairs of interfaces: %v", err)
	}
}

// DelLink deletes an interface; of a pair it deletes both.
func DelLink(t *testing.T, name string) {
	t.Helper()
	change(t, name, "delete", netlink.LinkDel)
}

// MoveLink moves an interface to the network namespace of a process.
func MoveLink(t *testing.T, name string, pid int) {
	t.Helper()
	change(t, name, "move", func(l netlink.Link) error { return netlink.LinkSetNsPid(l, pid) })
}

// RouteMulticast adds a route for IPv4 multicast to an interface.
func RouteMulticast(t *testing.T, name string) {
	t.Helper()
	addRoute(t, name, "224.0.0.0/4", netlink.Route{Scope: netlink.SCOPE_LINK})
}

// RouteIPv6Multicast adds a route for IPv6 multicast to a loopback interface; the kernel adds it to all others. It must
// be a local route: the kernel treats other routes over loopback as blackholes (fib6_is_reject in net/ipv6/route.c).
func RouteIPv6Multicast(t *testing.T, name string) {
	t.Helper()
	addRoute(t, name, "ff00::/8", netlink.Route{Type: unix.RTN_LOCAL, Priority: 256})
}

// addRoute adds a route to the main table, unless it exists.
func addRoute(t *testing.T, name, to string, r netlink.Route) {
	t.Helper()
	_, dst, err := net.ParseCIDR(to)
	if err != nil {
		t.Fatal(err)
	}
	r.LinkIndex, r.Dst, r.Table = LinkIndex(t, name), dst, unix.RT_TABLE_MAIN
	if err := netlink.RouteAdd(&r); err != nil && !errors.Is(err, unix.EEXIST) {
		t.Fatalf("route %s to %s: %v", to, name, err)
	}
}

// AddAddr adds an address to an interface. It can be used at once: IPv6 duplicate address detection is off for it.
func AddAddr(t *testing.T, name, prefix string) {
	t.Helper()
	change(t, name, "add "+prefix+" to", func(l netlink.Link) error { return netlink.AddrAdd(l, addr(t, prefix)) })
}

// DelAddr removes an address from an interface.
func DelAddr(t *testing.T, name, prefix string) {
	t.Helper()
	change(t, name, "remove "+prefix+" from", func(l netlink.Link) error { return netlink.AddrDel(l, addr(t, prefix)) })
}

func addr(t *testing.T, prefix string) *netlink.Addr {
	t.Helper()
	a, err := netlink.ParseAddr(prefix)
	if err != nil {
		t.Fatal(err)
	}
	if a.IP.To4() == nil {
		a.Flags = unix.IFA_F_NODAD
	}
	return a
}

// AwaitAddrs waits until all IPv6 addresses of an interface that is up can be bound, including the link-local one that
// the kernel adds.
func AwaitAddrs(t *testing.T, name string) {
	t.Helper()
	for range 2000 {
		if addrsUsable(t, name) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("the addresses of %s do not become usable", name)
}

func addrsUsable(t *testing.T, name string) bool {
	t.Helper()
	ifc, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := ifc.Addrs()
	if err != nil {
		t.Fatal(err)
	}
	bound := 0
	for _, a := range addrs {
		ip := a.(*net.IPNet).IP
		if ip.To4() != nil {
			continue
		}
		// By index: package net caches the index of a name for a minute.
		c, err := net.ListenUDP("udp6", &net.UDPAddr{IP: ip, Zone: strconv.Itoa(ifc.Index)})
		if err != nil {
			return false
		}
		c.Close()
		bound++
	}
	return bound > 0
}

package roce

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// link is a network interface.
type link struct {
	name     string
	index    int
	mtu      int // bytes
	up       bool
	loopback bool
	mac      net.HardwareAddr
	addrs    []netip.Addr // without zones, in the order of the GID table; those of a device include removed ones
}

// findLinks returns the interfaces of cfg.
func findLinks(cfg *Config) ([]link, error) {
	all, err := sys.Interfaces()
	if err != nil {
		return nil, failed("open RoCE", err)
	}
	var links []link
	var names []string
	known := make([]link, len(all))
	for i := range all {
		l, err := linkOf(&all[i], cfg)
		if err != nil {
			return nil, err
		}
		known[i] = l
		names = append(names, l.name)
		if len(cfg.Interfaces) == 0 && l.up && len(l.addrs) > 0 {
			links = append(links, l)
		}
	}
	for _, name := range cfg.Interfaces {
		i := slices.Index(names, name)
		if i < 0 {
			return nil, rdma.Errorf("open RoCE", syscall.ENODEV, "there is no interface %q; this host has %s", name, strings.Join(names, ", "))
		}
		l := known[i]
		if cfg.Addrs != nil {
			l.addrs = inOrder(cfg.Addrs)
		}
		switch {
		case !l.up:
			return nil, rdma.Errorf("open RoCE", syscall.ENETDOWN, "interface %s is down: ip link set %s up", name, name)
		case len(l.addrs) == 0 && cfg.IPv6:
			return nil, rdma.Errorf("open RoCE", syscall.EADDRNOTAVAIL, "interface %s has no IPv6 address: give it one, or use another", name)
		case len(l.addrs) == 0:
			return nil, rdma.Errorf("open RoCE", syscall.EADDRNOTAVAIL, "interface %s has no address: give it one, or use another", name)
		}
		links = append(links, l)
	}
	slices.SortStableFunc(links, func(a, b link) int { return boolInt(a.loopback) - boolInt(b.loopback) })
	return links, nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// linkOf returns an interface with its addresses; an interface that was just removed has none.
func linkOf(ifc *net.Interface, cfg *Config) (link, error) {
	l := link{name: ifc.Name, index: ifc.Index, mtu: ifc.MTU, up: ifc.Flags&net.FlagUp != 0,
		loopback: ifc.Flags&net.FlagLoopback != 0, mac: ifc.HardwareAddr}
	addrs, err := sys.InterfaceAddrs(ifc)
	if err != nil {
		return l, failed("open RoCE", err)
	}
	if cfg.IPv6 {
		addrs = slices.DeleteFunc(addrs, netip.Addr.Is4)
	}
	l.addrs = inOrder(addrs)
	return l, nil
}

// inOrder sorts addresses as in the kernel's GID tables: first the link-local address, then IPv4 addresses, then
// others.
func inOrder(addrs []netip.Addr) []netip.Addr {
	rank := func(a netip.Addr) int {
		switch {
		case a.Is6() && a.IsLinkLocalUnicast():
			return 0
		case a.Is4():
			return 1
		}
		return 2
	}
	var list []netip.Addr
	for _, a := range addrs {
		list = append(list, a.Unmap().WithZone(""))
	}
	slices.SortStableFunc(list, func(a, b netip.Addr) int { return rank(a) - rank(b) })
	return slices.Compact(list)
}

// overhead is the number of bytes for headers that rxe subtracts from the interface's MTU (kernel
// drivers/infiniband/sw/rxe/rxe_param.h, eth_mtu_int_to_enum).
const overhead = 80

// state returns the state of the port for package soft.
func (l *link) state() soft.PortState {
	s := soft.PortState{
		State: rdma.PortDown, LinkLayer: rdma.LinkLayerEthernet, MTU: max(rdma.MTUFor(l.mtu-overhead), 256),
		PKeys: []rdma.PKey{rdma.DefaultPKey}, NetDev: l.name, NetDevMTU: l.mtu, RateGbps: l.rate(),
		DefaultType: rdma.GIDTypeRoCEv2,
	}
	if l.up {
		s.State = rdma.PortActive
	}
	for i, a := range l.addrs {
		s.GIDs = append(s.GIDs, l.gid(i, a))
		s.Addrs = append(s.Addrs, a)
	}
	return s
}

// gid returns an address's entry in the GID table.
func (l *link) gid(index int, a netip.Addr) rdma.GIDEntry {
	return rdma.GIDEntry{GID: rdma.GIDFromIP(a), Index: index, Port: 1, Type: rdma.GIDTypeRoCEv2, NetDev: l.name}
}

// present returns the addresses in list that the interface has. Loopback has all addresses of its network.
func (l *link) present(list []netip.Addr) (have []netip.Addr) {
	for _, a := range inOrder(list) {
		if slices.Contains(l.addrs, a) || l.loopback && a.IsLoopback() {
			have = append(have, a)
		}
	}
	return have
}

// rate returns the interface's speed in gigabits per second, 0 if unknown.
func (l *link) rate() float64 {
	text, err := os.ReadFile("/sys/class/net/" + l.name + "/speed")
	if err != nil {
		return 0
	}
	mbit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || mbit < 0 {
		return 0
	}
	return float64(mbit) / 1000
}

// attr returns the device's limits, which are those of rxe (kernel drivers/infiniband/sw/rxe/rxe_param.h).
func (l *link) attr(cfg *Config) rdma.DeviceAttr {
	attr := rdma.DeviceAttr{
		Name: l.name, PhysPorts: 1,
		MaxQP: 1 << 16, MaxQPWR: 1 << 20, MaxSGE: 32, MaxCQ: 1 << 20, MaxCQE: 1 << 20,
		MaxMR: 1 << 19, MaxPD: 1 << 20, MaxAH: 32767, MaxInlineData: 512,
		MaxMcastGrp: 8192, MaxMcastQPAttach: 56, MaxTotalMcastQPAttach: 0x70000,
		EqualRuns: !cfg.NoGSO,
	}
	if len(l.mac) == 6 {
		// An EUI-64 from the MAC (IBTA A17.5.1).
		attr.NodeGUID = uint64(l.mac[0]^2)<<56 | uint64(l.mac[1])<<48 | uint64(l.mac[2])<<40 | 0xfffe<<24 |
			uint64(l.mac[3])<<16 | uint64(l.mac[4])<<8 | uint64(l.mac[5])
	}
	return attr
}

package doctor

import (
	"net"
	"net/netip"
	"slices"
)

// Which interface udp:// takes, and which one advice is about.

// defaultLink tells where udp:// without iface= goes, as transport/udp chooses. usable is
// how many interfaces do multicast, of IPv4 or IPv6. RDMA CM, too, wants a route to
// multicast groups unless it is told the address.
func (c *check) defaultLink(usable int) {
	switch d := &c.Default; {
	case usable == 0:
		if c.DefaultErr != nil {
			c.add("network", Warn, "ip link set lo up", "no interface is up for multicast with an address, loopback neither: udp:// cannot be used: %v", c.DefaultErr)
			return
		}
		c.add("network", Warn, c.remedy(), "no interface but loopback is up for multicast with an address: only programs of this host can be reached")
	case c.DefaultErr != nil:
		c.add("network", Warn, c.remedy(), "udp:// without iface= cannot be used: %v", c.DefaultErr)
	case d.Name == "":
	case d.Loopback && d.Routed:
		c.add("network", Warn, "ip route get 239.20.0.0", "udp:// without iface= stays on loopback (%s): the route to multicast groups leads there", d.Name)
	case d.Loopback:
		c.add("network", Warn, c.remedy(), "udp:// without iface= stays on loopback (%s): no other interface is up for multicast with an IPv4 address", d.Name)
	case d.Routed:
		c.add("network", OK, "", "udp:// without iface= uses %s (%v): the route to multicast groups leads there", d.Name, d.Addr)
	case d.RouteTo != "":
		c.add("network", Warn, "ip route replace 224.0.0.0/4 dev "+d.Name, "the route to multicast groups leads to %s, which is none for them: udp:// without iface= uses %s (%v)", d.RouteTo, d.Name, d.Addr)
	default:
		level, text := Info, "no route leads to multicast groups: udp:// without iface= uses %s (%v), the first interface that is up; RDMA CM wants a route"
		if c.candidates() > 1 {
			level, text = Warn, "no route leads to multicast groups, and there are several interfaces: udp:// without iface= uses %s (%v), the first that is up; RDMA CM wants a route"
		}
		c.add("network", level, "ip route add 224.0.0.0/4 dev "+d.Name, text, d.Name, d.Addr)
	}
}

// Flags of an interface in sysfs (linux/if.h).
const (
	flagUp        = 0x1
	flagLoopback  = 0x8
	flagMulticast = 0x1000
)

// candidates counts the interfaces that udp:// without iface= can choose from.
func (c *check) candidates() (n int) {
	for _, l := range c.links() {
		const needs = net.FlagUp | net.FlagMulticast
		if l.Flags&(needs|net.FlagLoopback) == needs && slices.ContainsFunc(c.Addrs[l.Name], netip.Addr.Is4) {
			n++
		}
	}
	return n
}

// links are the network interfaces of the host.
func (c *check) links() []net.Interface {
	if c.Links != nil {
		return c.Links
	}
	var all []net.Interface
	for _, name := range c.list("sys/class/net") {
		bits, ok := c.number("sys/class/net/" + name + "/flags")
		if !ok {
			continue
		}
		mtu, _ := c.number("sys/class/net/" + name + "/mtu")
		link := net.Interface{Name: name, MTU: int(mtu)}
		for bit, flag := range map[int64]net.Flags{flagUp: net.FlagUp, flagLoopback: net.FlagLoopback, flagMulticast: net.FlagMulticast} {
			if bits&bit != 0 {
				link.Flags |= flag
			}
		}
		all = append(all, link)
	}
	return all
}

// remedy is what makes an interface of this host usable for multicast: of one that
// misses the least.
func (c *check) remedy() string {
	fix, least := "ip -br address", 3
	for _, l := range c.links() {
		missing, text := 1, "ip address add 192.168.0.1/24 dev "+l.Name
		switch {
		case l.Flags&net.FlagLoopback != 0:
			continue
		case l.Flags&net.FlagUp == 0:
			missing, text = 2, "ip link set "+l.Name+" up"
		case len(c.Addrs[l.Name]) > 0 && l.Flags&net.FlagMulticast == 0:
			missing, text = 0, "ip link set "+l.Name+" multicast on"
		case len(c.Addrs[l.Name]) > 0:
			missing = 0 // it has an address, but of IPv6 only
		}
		if missing < least {
			fix, least = text, missing
		}
	}
	return fix
}

// someLink is an interface of this host that advice can name: rather one that is up
// with an address. Empty if there is none but loopback.
func (c *check) someLink() (name string) {
	best := -1
	for _, l := range c.links() {
		score := 0
		if l.Flags&net.FlagUp != 0 {
			score++
		}
		if len(c.Addrs[l.Name]) > 0 {
			score++
		}
		if l.Flags&net.FlagLoopback == 0 && score > best {
			name, best = l.Name, score
		}
	}
	return name
}

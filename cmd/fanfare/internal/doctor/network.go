package doctor

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

func (c *check) network() {
	if !c.exists("proc/sys/net") && !c.blind {
		c.add("network", Info, "", "this system has no /proc for its network: only the self-tests follow")
		c.defaultLink(1)
		return
	}
	usable := 0
	for _, link := range c.Links {
		if c.blind = false; c.link(link) {
			usable++
		}
	}
	c.each(func() { c.defaultLink(usable) }, c.memberships, c.firewall)
}

func (c *check) link(link net.Interface) bool {
	name := link.Name
	flags, addrs := link.Flags, c.Addrs[name]
	if flags&net.FlagLoopback != 0 || flags&net.FlagUp == 0 || len(addrs) == 0 {
		return false
	}
	if flags&net.FlagMulticast == 0 {
		c.add("network", Warn, "ip link set "+name+" multicast on", "interface %s is up, but without its multicast flag", name)
		return false
	}
	mtu := int64(link.MTU)
	text := "interface %s is up for multicast with address %v, MTU %d"
	if mtu >= 256+96 { // RDMA CM refuses smaller MTUs (kernel rdma/ib_addr.h, iboe_get_mtu)
		c.add("network", OK, "", text+" (RDMA MTU %d)", name, addrs[0], mtu, rdmaMTU(mtu))
	} else {
		c.add("network", OK, "", text, name, addrs[0], mtu)
	}
	c.each(func() { c.reversePath(name) }, func() { c.igmpVersion(name) }, func() { c.bridge(name) })
	return true
}

func rdmaMTU(mtu int64) int {
	m := 4096
	for m > 256 && int(mtu)-96 < m {
		m /= 2
	}
	return m
}

// reversePath checks the filter of source addresses: the stricter setting of "all" and the
// interface applies (kernel Documentation/networking/ip-sysctl).
func (c *check) reversePath(link string) {
	all, _ := c.number("proc/sys/net/ipv4/conf/all/rp_filter")
	own, _ := c.number("proc/sys/net/ipv4/conf/" + link + "/rp_filter")
	if max(all, own) == 1 {
		c.add("network", Warn, "sysctl -w net.ipv4.conf."+link+".rp_filter=2",
			"interface %s has a strict reverse path filter: multicast from a source with a route by another interface is dropped silently", link)
	}
}

// igmpVersion checks the IGMP version that the kernel uses: the forced one, or that of the oldest
// querier it has received from (RFC 3376, section 7.2.1).
func (c *check) igmpVersion(link string) {
	forced := int64(0)
	for _, dir := range []string{link, "all"} { // "all" takes precedence: kernel net/ipv4/igmp.c, IGMP_V1_SEEN
		if v, ok := c.number("proc/sys/net/ipv4/conf/" + dir + "/force_igmp_version"); ok && v != 0 {
			forced = v
		}
	}
	speaks := "V3"
	text, _ := c.read("proc/net/igmp")
	for line := range strings.Lines(text) {
		// names of ten or more characters are followed by the colon without a space (kernel net/ipv4/igmp.c,
		// igmp_mc_seq_show)
		device, figures, _ := strings.Cut(line, ":")
		if d, f := strings.Fields(device), strings.Fields(figures); len(d) == 2 && d[1] == link && len(f) == 2 {
			speaks = f[1]
		}
	}
	why := "no querier of an older version detected"
	switch {
	case forced != 0:
		speaks, why = "V"+strconv.FormatInt(forced, 10), "set by force_igmp_version"
	case speaks != "V3":
		why = "like the querier on its network"
	}
	force2 := "sysctl -w net.ipv4.conf." + link + ".force_igmp_version=2"
	cloud := c.cloud()
	switch {
	case speaks == "V1" && forced != 0:
		c.add("network", Warn, "sysctl -w net.ipv4.conf.all.force_igmp_version=0 net.ipv4.conf."+link+".force_igmp_version=0",
			"IGMP is forced to version 1 on %s, which has no leave message: switches forward groups for minutes after their last member left", link)
	case speaks == "V1":
		c.add("network", Warn, "tcpdump -ni "+link+" igmp", "a querier on the network of %s uses IGMP version 1, and therefore this host does, too", link)
	case speaks == "V3" && cloud.service != "":
		c.add("network", Warn, force2, "%s uses IGMP version 3 (%s), but multicast in %s supports only version 2: joins of this host have no effect there", link, why, cloud.name)
	default:
		c.add("network", OK, "", "%s uses IGMP version %s (%s)", link, speaks[1:], why)
	}
}

// bridge checks a bridge with IGMP snooping: without a querier it removes members after 260 s.
func (c *check) bridge(link string) {
	dir := "sys/class/net/" + link + "/bridge"
	snooping, ok := c.number(dir + "/multicast_snooping")
	querier, _ := c.number(dir + "/multicast_querier")
	if ok && snooping == 1 && querier == 0 {
		c.add("network", Warn, "ip link set "+link+" type bridge mcast_querier 1",
			"bridge %s uses IGMP snooping and is not a querier: unless its network has another querier, members are removed after some minutes", link)
	}
}

// memberships checks the number of groups that a socket may join; each socket of Fanfare joins one. Joins of RDMA CM
// do not count.
func (c *check) memberships() {
	if n, ok := c.number("proc/sys/net/ipv4/igmp_max_memberships"); ok {
		level, fix := OK, ""
		if n < 1 {
			level, fix = Fail, "sysctl -w net.ipv4.igmp_max_memberships=20"
		}
		c.add("network", level, fix, "a socket may join %d groups (net.ipv4.igmp_max_memberships); each socket of Fanfare joins one", n)
	}
}

func (c *check) firewall() {
	const must = "they must accept IGMP, the UDP ports of groups (default 7400; 4791 for RoCE), and replies to any UDP port, or only to port 7402 with uport=7402 in the URL of publishers"
	iptables, _ := c.read("proc/net/ip_tables_names")
	c.blind = false     // report what is known without the unreadable path
	var tables []string // tables of nftables that may filter
	var err error
	if c.Filters != nil {
		tables, err = c.Filters()
	}
	switch {
	case len(tables) > 0:
		c.add("network", Info, "nft list ruleset", "packet filters are loaded (nftables: %s): "+must, strings.Join(tables, ", "))
	case iptables != "":
		c.add("network", Info, "iptables -S", "a packet filter is loaded (iptables): "+must)
	case err != nil:
		c.add("network", Info, "sudo fanfare doctor", "rules of nftables are unknown: %v", err)
	}
}

// defaultLink reports the interface of udp:// without iface=, as chosen by transport/udp. usable is the number of
// interfaces with multicast, of IPv4 or IPv6. RDMA CM also needs a route to multicast groups unless it is given the
// address.
func (c *check) defaultLink(usable int) {
	switch d := &c.Default; {
	case usable == 0:
		if c.DefaultErr != nil {
			c.add("network", Warn, "ip link set lo up", "no interface with an address, including loopback, is up for multicast: udp:// cannot be used: %v", c.DefaultErr)
			return
		}
		c.add("network", Warn, c.remedy(), "only loopback is up for multicast with an address: only programs on this host can be reached")
	case c.DefaultErr != nil:
		c.add("network", Warn, c.remedy(), "udp:// without iface= cannot be used: %v", c.DefaultErr)
	case d.Name == "":
	case d.Loopback && d.Routed:
		c.add("network", Warn, "ip route get 239.20.0.0", "udp:// without iface= uses loopback (%s), because the route to multicast groups leads there", d.Name)
	case d.Loopback:
		c.add("network", Warn, c.remedy(), "udp:// without iface= uses loopback (%s): no other interface is up for multicast with an IPv4 address", d.Name)
	case d.Routed:
		c.add("network", OK, "", "udp:// without iface= uses %s (%v), the interface of the route to multicast groups", d.Name, d.Addr)
	case d.RouteTo != "":
		c.add("network", Warn, "ip route replace 224.0.0.0/4 dev "+d.Name, "the route to multicast groups leads to %s, which cannot be used for multicast: udp:// without iface= uses %s (%v)", d.RouteTo, d.Name, d.Addr)
	default:
		level, text := Info, "no route to multicast groups: udp:// without iface= uses %s (%v), the first interface that is up; RDMA CM needs a route"
		if c.candidates() > 1 {
			level, text = Warn, "no route to multicast groups, and there are several interfaces: udp:// without iface= uses %s (%v), the first that is up; RDMA CM needs a route"
		}
		c.add("network", level, "ip route add 224.0.0.0/4 dev "+d.Name, text, d.Name, d.Addr)
	}
}

func (c *check) candidates() (n int) {
	for _, l := range c.Links {
		const needs = net.FlagUp | net.FlagMulticast
		if l.Flags&(needs|net.FlagLoopback) == needs && slices.ContainsFunc(c.Addrs[l.Name], netip.Addr.Is4) {
			n++
		}
	}
	return n
}

func (c *check) remedy() string {
	fix, fewest := "ip -br address", 3
	for _, l := range c.Links {
		missing, text := 1, "ip address add 192.168.0.1/24 dev "+l.Name
		switch {
		case l.Flags&net.FlagLoopback != 0:
			continue
		case l.Flags&net.FlagUp == 0:
			missing, text = 2, "ip link set "+l.Name+" up"
		case len(c.Addrs[l.Name]) > 0 && l.Flags&net.FlagMulticast == 0:
			missing, text = 0, "ip link set "+l.Name+" multicast on"
		case len(c.Addrs[l.Name]) > 0:
			missing = 0 // it has an address, but only of IPv6
		}
		if missing < fewest {
			fix, fewest = text, missing
		}
	}
	return fix
}

// someLink is an interface for use in advice, preferably one that is up with an address; empty: only loopback exists.
func (c *check) someLink() (name string) {
	best := -1
	for _, l := range c.Links {
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

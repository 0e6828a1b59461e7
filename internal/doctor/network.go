package doctor

import (
	"net"
	"strings"
)

func (c *check) network() {
	if !c.exists("proc/sys/net") {
		c.add("network", Info, "", "this system does not show its network in /proc: what follows are the self-tests alone")
		c.defaultLink(1)
		return
	}
	usable := 0
	for _, link := range c.links() {
		if c.link(link) {
			usable++
		}
	}
	c.defaultLink(usable)
	c.memberships()
	c.firewall()
}

// link looks at one interface, and reports whether multicast can use it.
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
	if mtu >= 256+96 { // else RDMA CM refuses it (kernel rdma/ib_addr.h, iboe_get_mtu)
		c.add("network", OK, "", text+" (RDMA MTU %d)", name, addrs[0], mtu, rdmaMTU(mtu))
	} else {
		c.add("network", OK, "", text, name, addrs[0], mtu)
	}
	c.reversePath(name)
	c.igmpVersion(name)
	c.bridge(name)
	return true
}

// rdmaMTU is that of RoCE on an interface.
func rdmaMTU(mtu int64) int {
	for m := 4096; m > 256; m /= 2 {
		if int(mtu)-96 >= m {
			return m
		}
	}
	return 256
}

// reversePath looks at the filter of source addresses: the stricter of "all"
// and the interface's own counts (kernel Documentation/networking/ip-sysctl).
func (c *check) reversePath(link string) {
	all, _ := c.number("proc/sys/net/ipv4/conf/all/rp_filter")
	own, _ := c.number("proc/sys/net/ipv4/conf/" + link + "/rp_filter")
	if max(all, own) == 1 {
		c.add("network", Warn, "sysctl -w net.ipv4.conf."+link+".rp_filter=2",
			"interface %s filters by reverse path strictly: multicast from a source whose route leads elsewhere is dropped without a word", link)
	}
}

// igmpVersion looks at the version that the kernel speaks.
func (c *check) igmpVersion(link string) {
	for _, who := range []string{"all", link} {
		if v, ok := c.number("proc/sys/net/ipv4/conf/" + who + "/force_igmp_version"); ok && v == 1 {
			c.add("network", Warn, "sysctl -w net.ipv4.conf."+who+".force_igmp_version=0", "IGMP is forced to version 1 on %s, which has no leave: switches forward groups for minutes after their last member left", who)
		}
	}
	// /proc/net/igmp names the version that the querier made the kernel use.
	text, _ := c.read("proc/net/igmp")
	for _, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		if len(f) >= 5 && f[1] == link && f[len(f)-1] == "V1" {
			c.add("network", Warn, "tcpdump -ni "+link+" igmp", "a querier on the network of %s speaks IGMP version 1, and so does this host", link)
		}
	}
}

// bridge looks at a bridge that snoops IGMP: without a querier it forgets
// members after 260 s, and then they hear nothing.
func (c *check) bridge(link string) {
	dir := "sys/class/net/" + link + "/bridge"
	snooping, ok := c.number(dir + "/multicast_snooping")
	querier, _ := c.number(dir + "/multicast_querier")
	if ok && snooping == 1 && querier == 0 {
		c.add("network", Warn, "ip link set "+link+" type bridge mcast_querier 1",
			"bridge %s snoops IGMP and is no querier itself: unless its network has another, members are forgotten after some minutes", link)
	}
}

// memberships tells of the limit of groups on a socket, which Fanfare does not
// meet: it has a socket for each group. Joins by RDMA CM do not count at all.
func (c *check) memberships() {
	if n, ok := c.number("proc/sys/net/ipv4/igmp_max_memberships"); ok {
		level, fix := OK, ""
		if n < 1 {
			level, fix = Fail, "sysctl -w net.ipv4.igmp_max_memberships=20"
		}
		c.add("network", level, fix, "a socket may join %d groups (net.ipv4.igmp_max_memberships), and Fanfare's join one each", n)
	}
}

// firewall tells what must pass, where rules are loaded.
func (c *check) firewall() {
	tables, _ := c.read("proc/net/ip_tables_names")
	nft, _ := c.number("sys/module/nf_tables/refcnt")
	if tables != "" || nft > 0 {
		c.add("network", Info, "nft list ruleset; iptables -S", "a packet filter is loaded: IGMP, the groups' UDP ports (7400 unless changed; 4791 for RoCE) and replies to any UDP port must pass it")
	}
}

package doctor

import (
	"net"
	"strconv"
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

// igmpVersion looks at the version that the kernel speaks: the forced one, or that of the oldest querier it
// has heard (RFC 3376, section 7.2.1).
func (c *check) igmpVersion(link string) {
	forced := int64(0)
	for _, who := range []string{link, "all"} { // the latter has precedence: kernel net/ipv4/igmp.c, IGMP_V1_SEEN
		if v, ok := c.number("proc/sys/net/ipv4/conf/" + who + "/force_igmp_version"); ok && v != 0 {
			forced = v
		}
	}
	speaks := "V3"
	text, _ := c.read("proc/net/igmp")
	for _, line := range strings.Split(text, "\n") {
		if f := strings.Fields(line); len(f) >= 5 && f[1] == link {
			speaks = f[len(f)-1]
		}
	}
	why := "no querier of an older version was heard"
	switch {
	case forced != 0:
		speaks, why = "V"+strconv.FormatInt(forced, 10), "force_igmp_version says so"
	case speaks != "V3":
		why = "as the querier on its network does"
	}
	force2 := "sysctl -w net.ipv4.conf." + link + ".force_igmp_version=2"
	cloud := c.cloud()
	switch {
	case speaks == "V1" && forced != 0:
		c.add("network", Warn, "sysctl -w net.ipv4.conf.all.force_igmp_version=0 net.ipv4.conf."+link+".force_igmp_version=0",
			"IGMP is forced to version 1 on %s, which has no leave: switches forward groups for minutes after their last member left", link)
	case speaks == "V1":
		c.add("network", Warn, "tcpdump -ni "+link+" igmp", "a querier on the network of %s speaks IGMP version 1, and so does this host", link)
	case speaks == "V3" && cloud.service != "":
		c.add("network", Warn, force2, "%s speaks IGMP version 3 (%s), and multicast in %s takes version 2 alone: this host's joins have no effect there", link, why, cloud.name)
	default:
		c.add("network", OK, "", "%s speaks IGMP version %s (%s)", link, speaks[1:], why)
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

// firewall says what must pass a packet filter, where rules are loaded.
func (c *check) firewall() {
	const must = "IGMP, the groups' UDP ports (7400 unless changed; 4791 for RoCE), and replies to any UDP port must pass it; uport=7402 in the URL of publishers makes that one port"
	iptables, _ := c.read("proc/net/ip_tables_names")
	switch tables, err := c.filters(); {
	case len(tables) > 0:
		c.add("network", Info, "nft list ruleset", "packet filters are loaded (nftables: %s): "+must, strings.Join(tables, ", "))
	case iptables != "":
		c.add("network", Info, "iptables -S", "a packet filter is loaded (iptables): "+must)
	case err != nil:
		c.add("network", Info, "sudo fanfare doctor", "whether nftables has rules is not known: %v", err)
	}
}

// filters are the tables of nftables that may filter; an error where that cannot be known.
func (c *check) filters() ([]string, error) {
	if c.Filters == nil {
		return nil, nil
	}
	return c.Filters()
}

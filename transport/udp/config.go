package udp

import (
	"fmt"
	"net/netip"

	"github.com/fanfaremq/fanfare/transport/internal/peers"
)

// Defaults and limits of Config.
const (
	defaultPort   = 7400
	defaultGroups = 16
	// defaultPacketSize is the payload of a full Ethernet frame: 1500 bytes less the IPv4 and the UDP header.
	defaultPacketSize = 1472
	defaultReceive    = 8 << 20
	defaultSend       = 2 << 20
	defaultLend       = 192

	maxGroups = 1 << 16
	// maxPacket is the largest UDP payload over IPv4: 65535 bytes less 28 of
	// headers. IPv6 would carry 20 more; one limit keeps both alike.
	maxPacket = 65507
	minPacket = 64
	maxBuffer = 1 << 30
	maxLend   = 1 << 12

	headersIPv4 = 20 + 8
	headersIPv6 = 40 + 8
)

// defaultRange is in the block for local use by every site (RFC 2365, administratively scoped multicast).
var defaultRange = netip.MustParsePrefix("239.20.0.0/16")

// Config describes an endpoint. The zero value of a field is its documented default. Parse fills it in from a URL.
type Config struct {
	// Range of multicast addresses: group i is its address plus i, up to the
	// end of the prefix. Default 239.20.0.0/16. IPv6 likewise: ff15::20:0/112.
	Range netip.Prefix
	// Interface to send on and to join at: a name ("eth0") or an address of the interface. Default: the interface of the
	// route to the first group, else the first one that is up and supports multicast, else loopback.
	Interface string
	// Port of all groups; default 7400.
	Port int
	// Groups in the range; default 16, or as many as Range holds.
	Groups int
	// TTL is the IP time to live of packets: with 1, the default, they stay on the local network; with -1 on this host (a
	// TTL of 0).
	TTL int
	// NoLoopback: receivers on the sending host do not get its packets. By default they do (IP_MULTICAST_LOOP, ip(7)).
	NoLoopback bool
	// PacketSize in bytes is the size to fill packets to; default 1472, or less if the interface's MTU is smaller. Packets
	// larger than the MTU are sent in IP fragments: the loss of one loses the packet. From 64 to 65507.
	PacketSize int
	// ReceiveBuffer and SendBuffer are the requested sizes of socket buffers in bytes; default 8 MiB and 2 MiB. The kernel
	// grants at most net.core.rmem_max and wmem_max to a process without CAP_NET_ADMIN; see SocketLimits. Each group has
	// its own receive buffer.
	ReceiveBuffer, SendBuffer int
	// NoGSO sends every packet as a separate datagram, by sendmmsg. By default a train is sent in one call (UDP_SEGMENT,
	// udp(7)) if the kernel and the network card support it.
	NoGSO bool
	// NoGRO receives every packet separately. By default the kernel delivers trains (UDP_GRO, udp(7)).
	NoGRO bool
	// UnicastPort is the source port of packets, where replies arrive; default any free one.
	UnicastPort int
	// LendMax is how many trains may be kept past the next Poll; default 192,
	// at most 4096. Each is 64 KiB of memory, touched only when used.
	LendMax int
	// Peers is how many peers may be retained; default 4096, at most 65535.
	Peers int
}

// withDefaults returns the configuration with defaults filled in, or an error. It leaves a PacketSize of zero, because
// the default depends on the interface.
func (c Config) withDefaults() (Config, error) {
	if !c.Range.IsValid() {
		c.Range = defaultRange
	}
	base := c.Range.Addr()
	last := lastAddr(c.Range)
	if base.Is4In6() || base.Zone() != "" {
		return c, fmt.Errorf("udp: group range %v: write a plain IPv4 or IPv6 address", c.Range)
	}
	if !base.IsMulticast() || !last.IsMulticast() {
		return c, fmt.Errorf("udp: group range %v is not all multicast; use a range within 224.0.0.0/4 or ff00::/8, such as 239.20.0.0/16", c.Range)
	}
	size := rangeSize(base, last)
	if c.Groups == 0 {
		c.Groups = min(defaultGroups, size)
	}
	for _, f := range []struct {
		name          string
		val           *int
		def, min, max int
	}{
		{"groups", &c.Groups, 0, 1, maxGroups},
		{"port", &c.Port, defaultPort, 1, 1<<16 - 1},
		{"uport", &c.UnicastPort, 0, 0, 1<<16 - 1},
		{"ttl", &c.TTL, 1, -1, 255},
		{"rcvbuf", &c.ReceiveBuffer, defaultReceive, 1, maxBuffer},
		{"sndbuf", &c.SendBuffer, defaultSend, 1, maxBuffer},
		{"lend", &c.LendMax, defaultLend, 1, maxLend},
		{"peers", &c.Peers, peers.DefaultLimit, 1, peers.MaxLimit},
	} {
		if *f.val == 0 {
			*f.val = f.def
		}
		if *f.val < f.min || *f.val > f.max {
			return c, fmt.Errorf("udp: %s is %d; it must be from %d to %d", f.name, *f.val, f.min, f.max)
		}
	}
	if c.Groups > size {
		return c, fmt.Errorf("udp: %d groups do not fit into the range %v, which has %d addresses from the first group on; give a shorter prefix or fewer groups", c.Groups, c.Range, size)
	}
	if c.PacketSize != 0 && (c.PacketSize < minPacket || c.PacketSize > maxPacket) {
		return c, fmt.Errorf("udp: size is %d; it must be from %d to %d bytes", c.PacketSize, minPacket, maxPacket)
	}
	if c.UnicastPort == c.Port {
		return c, fmt.Errorf("udp: uport and port are both %d; replies need a port of their own", c.Port)
	}
	return c, nil
}

// Addresses returns the address of the first group, and the number of groups, which have consecutive addresses.
func (c Config) Addresses() (first netip.AddrPort, n int, err error) {
	c, err = c.withDefaults()
	return netip.AddrPortFrom(c.Range.Addr(), uint16(c.Port)), c.Groups, err
}

// ttl is the value of the socket option.
func (c *Config) ttl() int { return max(c.TTL, 0) }

// headers is the size of the IP and UDP header.
func (c *Config) headers() int {
	if c.Range.Addr().Is4() {
		return headersIPv4
	}
	return headersIPv6
}

// packetSize is the size to fill packets to on an interface with this MTU.
func (c *Config) packetSize(mtu int) int {
	if c.PacketSize != 0 {
		return c.PacketSize
	}
	return max(minPacket, min(defaultPacketSize, mtu-c.headers()))
}

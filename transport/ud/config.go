package ud

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport/internal/peers"
)

// Defaults and limits of Config.
const (
	defaultGroups       = 16
	defaultReceiveQueue = 4096
	defaultSendQueue    = 512

	maxGroups = 1 << 16
	// minQueue: a quarter of a queue, which may be lent or is posted at a time, must be several packets.
	minQueue      = 16
	maxQueue      = 1 << 16
	minPacketSize = 64
	maxArena      = 1 << 30
)

// defaultRange is in the block for local use by every site (RFC 2365, administratively scoped multicast).
var defaultRange = netip.MustParsePrefix("239.20.0.0/16")

// Config describes an endpoint. The zero value of a field is its documented default; only Provider must be given.
type Config struct {
	// Provider of the device: a host of a simulated subnet (rdma/fabric), or another rdma.Provider.
	Provider rdma.Provider
	// Local is an address of the port's IPoIB or Ethernet interface. Default: the first address of Port of Device.
	Local netip.Addr
	// Device is the name of the device; default the first one with an active port. It must be empty if Local is set.
	Device string
	// Port of the device, from 1; default the first active one, else the first.
	Port int
	// Range of IP multicast addresses: group i is its address plus i, up to the end of the prefix. The connection manager
	// turns them into MGIDs (rdma.MGIDForIB, rdma.MGIDForRoCE). Default 239.20.0.0/16. IPv6 works on InfiniBand only.
	Range netip.Prefix
	// Groups in the range; default 16, or as many as Range holds. The same on all hosts.
	Groups int
	// PacketSize in bytes is the size to fill packets to; default the port's active MTU. If MTUs of hosts differ, set the
	// smallest on all hosts.
	PacketSize int
	// ReceiveQueue is how many packets wait for a Poll without loss; at least 16, default 4096 or the device's maximum.
	// Each takes 40 bytes plus the MTU of registered memory. A quarter may be lent (Capabilities.LendMax).
	ReceiveQueue int
	// SendQueue is how many sent packets may be incomplete; at least 16, default 512 or the device's maximum.
	SendQueue int
	// Arena is how many bytes for Alloc are registered at first, in one region with the slots of both queues; default
	// none. When Alloc needs more, at least a quarter of the arena is registered in addition. Each published group needs
	// its window, 8 MiB by default.
	Arena int
	// Peers is how many peers may be retained, with an address handle each; default 4096, at most 65535 and the device's
	// maximum.
	Peers int
	// Logger receives log lines; default: none are written.
	Logger *slog.Logger
	// Clock is the time since a fixed moment, for the delays between attempts to join again. Default the monotonic clock;
	// with Now of a stepped fabric runs are repeatable.
	Clock func() time.Duration
}

// withDefaults returns the configuration with defaults filled in, or an error. It leaves queues and PacketSize of zero,
// because their defaults depend on the device.
func (c Config) withDefaults() (Config, error) {
	if c.Provider == nil {
		return c, errors.New("ud: Config.Provider is nil; set a provider of package rdma")
	}
	if c.Local.IsValid() && c.Device != "" {
		return c, errors.New("ud: Local and Device are both set; leave one out")
	}
	if !c.Range.IsValid() {
		c.Range = defaultRange
	}
	base := c.Range.Addr()
	if base.Is4In6() || base.Zone() != "" || !base.IsMulticast() || !c.Range.Masked().Addr().IsMulticast() {
		return c, fmt.Errorf("ud: group range %v is not all multicast; use a range within 224.0.0.0/4 or ff00::/8, such as 239.20.0.0/16", c.Range)
	}
	size := rangeSize(c.Range)
	if c.Groups == 0 {
		c.Groups = min(defaultGroups, size)
	}
	for _, f := range []struct {
		name          string
		val           *int
		def, min, max int
	}{
		{"groups", &c.Groups, 0, 1, maxGroups},
		{"port", &c.Port, 0, 0, 255},
		{"receive queue", &c.ReceiveQueue, 0, minQueue, maxQueue},
		{"send queue", &c.SendQueue, 0, minQueue, maxQueue},
		{"arena", &c.Arena, 0, 0, maxArena},
		{"packet size", &c.PacketSize, 0, minPacketSize, 4096},
		{"peers", &c.Peers, peers.DefaultLimit, 1, peers.MaxLimit},
	} {
		if *f.val == 0 {
			*f.val = f.def
		}
		if *f.val != 0 && *f.val < f.min || *f.val > f.max {
			return c, fmt.Errorf("ud: %s is %d; it must be from %d to %d", f.name, *f.val, f.min, f.max)
		}
	}
	if c.Groups > size {
		return c, fmt.Errorf("ud: %d groups do not fit into the range %v, which has %d addresses from the first group on; give a shorter prefix or fewer groups", c.Groups, c.Range, size)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		start := time.Now()
		c.Clock = func() time.Duration { return time.Since(start) }
	}
	return c, nil
}

// rangeSize is the number of addresses in a prefix from its address on, or a large number if there are more than
// groups.
func rangeSize(p netip.Prefix) int {
	n := 0
	for a := p.Addr(); n < maxGroups && a.IsValid() && p.Contains(a); a = a.Next() {
		n++
	}
	return n
}

// groupAddrs are the addresses of all groups.
func (c *Config) groupAddrs() []rdma.Addr {
	addrs := make([]rdma.Addr, c.Groups)
	a := c.Range.Addr()
	for i := range addrs {
		addrs[i] = rdma.IPAddr(a)
		a = a.Next()
	}
	return addrs
}

// lendMax is how many packets may be kept past the next Poll.
func (c *Config) lendMax() int { return c.ReceiveQueue / 4 }

// fit reduces default sizes of queues to the limits of the device. It returns an error if set sizes exceed them.
func (c *Config) fit(attr *rdma.DeviceAttr, mtu int) error {
	for _, q := range []struct {
		name string
		val  *int
		def  int
	}{{"receive", &c.ReceiveQueue, defaultReceiveQueue}, {"send", &c.SendQueue, defaultSendQueue}} {
		limit := min(attr.MaxQPWR, attr.MaxCQE)
		if *q.val == 0 {
			*q.val = min(q.def, limit)
		}
		if *q.val > limit {
			return fmt.Errorf("ud: a %s queue of %d exceeds the maximum of device %s, which is %d", q.name, *q.val, attr.Name, limit)
		}
	}
	c.Peers = min(c.Peers, max(1, attr.MaxAH-c.Groups))
	if c.PacketSize == 0 {
		c.PacketSize = mtu
	}
	if c.PacketSize > mtu {
		return fmt.Errorf("ud: packets of %d bytes are too large for device %s with an MTU of %d", c.PacketSize, attr.Name, mtu)
	}
	return nil
}

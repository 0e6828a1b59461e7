package fabric

import (
	"math"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// Flavor of a fabric.
type Flavor uint8

const (
	InfiniBand Flavor = iota
	RoCE              // RoCEv2
)

func (f Flavor) String() string {
	if f == RoCE {
		return "RoCE"
	}
	return "IB"
}

// Config describes a fabric. The zero value is a stepped InfiniBand subnet (see Fabric.Step) with one switch, without
// delays and faults.
type Config struct {
	Flavor Flavor
	// Seed of all random choices.
	Seed uint64

	// Live: the fabric runs in real time, with Clock.
	Live bool
	// Clock of a live fabric: the time since a fixed moment. Default: the monotonic clock.
	Clock func() time.Duration

	// Switches is the number of switches: the first is the spine, the others are leaves connected to it. Default 1.
	Switches int
	// Latency of each link that a datagram crosses.
	Latency time.Duration
	// ProgrammingDelay is the time from the change of a membership to the change of the switches' tables.
	ProgrammingDelay time.Duration
	// SendDelay is the time from posting a message until the device has read its memory and completes it. If a program
	// changes the memory before the completion, the changed bytes are sent.
	SendDelay time.Duration

	// MTU of InfiniBand ports; default 4096.
	MTU rdma.MTU
	// NetDevMTU is the MTU of Ethernet interfaces in bytes, which determines their RDMA MTU; default 4200, for an RDMA MTU
	// of 4096.
	NetDevMTU int
	// PKey and Scope of the IPoIB interfaces; default 0xffff and link-local.
	PKey  rdma.PKey
	Scope uint8
	// FloodMulticast simulates Ethernet switches without IGMP snooping.
	FloodMulticast bool

	SM     SM
	Faults Faults
}

// SM is the behavior of the subnet manager.
type SM struct {
	// NoSendOnly: it refuses send-only full members.
	NoSendOnly bool
	// Silent: it does not answer.
	Silent bool
	// ResponseDelay is the time until an answer.
	ResponseDelay time.Duration
	// MLIDs is the total number of MLIDs, including that of the broadcast group; default all from 0xC000 to 0xFFFE.
	MLIDs int
	// Override, if not nil, changes the record of each new group (SL, flow label, ...).
	Override func(*Group)
}

// Group has the values that the administrator chooses for a new group.
type Group struct {
	MGID       rdma.GID
	SL, TClass uint8
	FlowLabel  uint32
	HopLimit   uint8
	MTU        rdma.MTU
	Rate       uint8 // enum ibv_rate
}

// Faults apply to each datagram on the link to each port, except the sender's own port.
type Faults struct {
	Loss      float64 // probability
	Duplicate float64 // probability of a second copy
	// Reorder is the probability that a datagram is delayed by ReorderDelay, default 10 µs, so that others overtake it.
	Reorder      float64
	ReorderDelay time.Duration
	// Jitter is the maximum random delay of a datagram; the order on a link is kept.
	Jitter time.Duration
}

func (c Config) withDefaults() Config {
	c.Switches = max(c.Switches, 1)
	if c.MTU == 0 {
		c.MTU = 4096
	}
	if c.NetDevMTU == 0 {
		c.NetDevMTU = 4200
	}
	if c.PKey == 0 {
		c.PKey = rdma.DefaultPKey
	}
	if c.Scope == 0 {
		c.Scope = rdma.DefaultScope
	}
	if c.SM.MLIDs == 0 {
		c.SM.MLIDs = int(rdma.MLIDMax-rdma.MLIDMin) + 1
	}
	if c.Clock == nil {
		start := time.Now()
		c.Clock = func() time.Duration { return time.Since(start) }
	}
	return c
}

// HostConfig describes a host. The zero value has one device "sim0" with one port.
type HostConfig struct {
	// Name of the host in traces; default h0, h1, ...
	Name string
	// Devices is the number of devices, with the names sim0, sim1, ...; Ports is the number of ports of each. Default 1.
	Devices, Ports int
	// Switch of the ports; default each switch in turn.
	Switch int
	// RateGbps is the speed of the ports in Gbit/s, at least 2.5, the slowest of InfiniBand; default 100. On InfiniBand a
	// group has the rate of the port that joins first, and slower ports cannot join it.
	RateGbps float64
	// Limits, if not nil, changes the devices' limits.
	Limits func(*rdma.DeviceAttr)
	// Privileged: the host may use Q_Keys with bit 31 set.
	Privileged bool
	// NoMulticastRoute: the host has no route for multicast, which otherwise leads to the first port.
	NoMulticastRoute bool
}

// check returns an error for an impossible configuration.
func (c *HostConfig) check() error {
	if !(c.RateGbps >= slowest) || math.IsInf(c.RateGbps, 1) {
		return rdma.Errorf("add host", syscall.EINVAL, "RateGbps %v must be %v or more", c.RateGbps, slowest)
	}
	return nil
}

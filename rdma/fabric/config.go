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

// Config describes a fabric. The zero value is a stepped InfiniBand subnet with one switch, without delays and faults.
type Config struct {
	Flavor Flavor
	// Seed of all randomness.
	Seed uint64

	// Live makes the fabric run by itself, by Clock.
	Live bool
	// Clock of a live fabric: the time since some fixed moment. Default: the monotonic clock.
	Clock func() time.Duration

	// Switches in the subnet: the first is the spine and the others are leaves on it. Default 1.
	Switches int
	// Latency of each link that a datagram crosses.
	Latency time.Duration
	// ProgrammingDelay is from the change of a membership until the switches know of it.
	ProgrammingDelay time.Duration
	// SendDelay is the time from the doorbell until the device has read the memory of a message and
	// completes it. If a program changes the memory before the completion, the changed bytes are sent.
	SendDelay time.Duration

	// MTU of InfiniBand ports; default 4096.
	MTU rdma.MTU
	// NetDevMTU of Ethernet interfaces in bytes, from which their RDMA MTU follows; default 4200, which gives 4096.
	NetDevMTU int
	// PKey and Scope of the IPoIB interfaces; default 0xffff and link-local.
	PKey  rdma.PKey
	Scope uint8
	// FloodMulticast simulates an Ethernet with switches that do not snoop IGMP.
	FloodMulticast bool

	SM     SM
	Faults Faults
}

// SM is how the subnet manager behaves.
type SM struct {
	// NoSendOnly refuses send-only full members.
	NoSendOnly bool
	// Silent answers nothing.
	Silent bool
	// ResponseDelay is how long an answer takes.
	ResponseDelay time.Duration
	// MLIDs is the number of MLIDs in all, that of the broadcast group included; default all from 0xC000 to 0xFFFE.
	MLIDs int
	// Override, if not nil, changes each new group's record as the administrator sees fit (SL, flow label, ...).
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

// Faults strike each datagram on its way to each port, apart from those to the sender's own port.
type Faults struct {
	Loss      float64 // probability
	Duplicate float64 // probability of a second copy
	// Reorder is the probability that a datagram is held back for
	// ReorderDelay, default 10 µs, so that later ones overtake it.
	Reorder      float64
	ReorderDelay time.Duration
	// Jitter delays each datagram by up to as much; the order on a link is kept.
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
	// Devices, called sim0, sim1, ...; default 1. Ports of each; default 1.
	Devices, Ports int
	// Switch that the ports are on; default in turns.
	Switch int
	// RateGbps is the speed of the ports in Gbit/s, at least 2.5, the slowest of InfiniBand; default 100. Groups are made
	// with that of the port that joins first, and refused to slower ones (InfiniBand).
	RateGbps float64
	// Limits, if not nil, changes the devices' limits.
	Limits func(*rdma.DeviceAttr)
	// Privileged lets the host use Q_Keys with bit 31 set.
	Privileged bool
	// NoMulticastRoute leaves out the route to all groups from the first port.
	NoMulticastRoute bool
}

// check finds what no host can be like.
func (c *HostConfig) check() error {
	if !(c.RateGbps >= slowest) || math.IsInf(c.RateGbps, 1) {
		return rdma.Errorf("add host", syscall.EINVAL, "RateGbps %v must be %v or more", c.RateGbps, slowest)
	}
	return nil
}

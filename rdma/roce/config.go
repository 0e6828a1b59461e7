package roce

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// Check is the way in which the ICRC of received IPv4 datagrams is checked. On IPv6 it is always checked in full.
type Check uint8

const (
	// CheckBest is CheckFull if this process has the permission, otherwise CheckUDP.
	CheckBest Check = iota
	// CheckFull reads IP headers from a raw socket, which needs CAP_NET_RAW, and compares all 32 bits.
	CheckFull
	// CheckUDP reads a UDP socket, which does not report identification and DF of the IP header, although the ICRC covers
	// both. A datagram with the values of a sender of this package is compared in full; otherwise the values are computed
	// from the ICRC, and a damaged datagram passes with a probability of 2^-15.
	CheckUDP
)

func (c Check) String() string { return [...]string{"best", "full", "udp"}[min(c, CheckUDP)] }

// Config describes a host. The zero value of a field is its default.
type Config struct {
	// Interfaces has the names of the network interfaces to use, each of which becomes a device with the same name.
	// Default: all that are up and have an address, loopback last.
	Interfaces []string
	// Addrs replaces the interface's addresses, if Interfaces has only one. They must be addresses of this host; all of
	// 127.0.0.0/8 are addresses of interface lo.
	Addrs []netip.Addr
	// IPv6: use only the interfaces' IPv6 addresses, and let the connection manager join IPv6 groups, which the kernel's
	// does not. Then all ICRCs are checked in full, without privileges.
	IPv6 bool
	// Check of the ICRC of received IPv4 datagrams.
	Check Check
	// NoGSO: send each datagram separately. NoGRO: receive each separately.
	NoGSO, NoGRO bool
	// ReceiveBuffer and SendBuffer are requested from the kernel for each socket, in bytes; default 8
	// MiB and 4 MiB. Without CAP_NET_ADMIN net.core.rmem_max and wmem_max limit them.
	ReceiveBuffer, SendBuffer int
	// RelayAnyUser: accept unicast datagrams for this process that processes of any user of this host relay. Default: only
	// from processes of the same user and of root. See the package comment.
	RelayAnyUser bool
	// Limits, if not nil, changes the devices' limits.
	Limits func(*rdma.DeviceAttr)
}

// Defaults and limits of Config.
const (
	defaultReceiveBuffer = 8 << 20
	defaultSendBuffer    = 4 << 20
	maxBuffer            = 1 << 30
)

func (c Config) withDefaults() (Config, error) {
	for _, b := range []struct {
		name  string
		bytes *int
		def   int
	}{
		{"ReceiveBuffer", &c.ReceiveBuffer, defaultReceiveBuffer},
		{"SendBuffer", &c.SendBuffer, defaultSendBuffer},
	} {
		if *b.bytes < 0 || *b.bytes > maxBuffer {
			return c, invalid("%s is %d bytes: it must be from 0, for the default, to %d", b.name, *b.bytes, maxBuffer)
		}
		if *b.bytes == 0 {
			*b.bytes = b.def
		}
	}
	if c.Check > CheckUDP {
		return c, invalid("there is no Check %d", c.Check)
	}
	if c.Addrs != nil && len(c.Interfaces) != 1 {
		return c, invalid("Addrs needs exactly one interface, not %d", len(c.Interfaces))
	}
	for _, a := range c.Addrs {
		if !a.IsValid() || a.IsMulticast() || a.IsUnspecified() {
			return c, invalid("%v is not an address of an interface", a)
		}
		if c.IPv6 && a.Unmap().Is4() {
			return c, invalid("%v is not an IPv6 address", a)
		}
	}
	return c, nil
}

func invalid(format string, args ...any) error {
	return rdma.Errorf("open RoCE", syscall.EINVAL, "%s", fmt.Sprintf(format, args...))
}

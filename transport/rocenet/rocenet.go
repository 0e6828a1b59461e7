// Package rocenet is the fabric of RoCEv2 in user space: package transport/ud over package rdma/roce, on a network
// interface of this host. The other side can be this package, a NIC or the kernel's Soft-RoCE. It needs Linux, but no
// hardware and no privileges.
package rocenet

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma/roce"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/multicast"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// Transport is an endpoint: a transport/ud with its own provider.
type Transport struct {
	*ud.Transport
	provider *roce.Provider
	device   string
	capacity int // of a socket, in packets
	ipv6     bool
	once     sync.Once // for closing the provider
}

var _ transport.Transport = (*Transport)(nil)

// defaultReceiveQueue is shorter than ud's: datagrams between two Polls wait in a socket, and a queue
// that fits the cache is faster. One call receives 128 datagrams at most.
const defaultReceiveQueue = 512

// defaultRange6 is within the transient addresses of site-local scope (RFC 4291 §2.7).
var defaultRange6 = netip.MustParsePrefix("ff15::20:0/112")

// Open makes an endpoint.
func Open(cfg Config) (*Transport, error) {
	rc := roce.Config{
		Check: cfg.Check, NoGSO: cfg.NoGSO, NoGRO: cfg.NoGRO,
		ReceiveBuffer: cfg.ReceiveBuffer, SendBuffer: cfg.SendBuffer, RelayAnyUser: cfg.RelayAnyUser,
	}
	uc := ud.Config{
		Range: cfg.Range, Groups: cfg.Groups, PacketSize: cfg.PacketSize,
		ReceiveQueue: cfg.ReceiveQueue, SendQueue: cfg.SendQueue, Peers: cfg.Peers, Logger: cfg.Logger,
	}
	if uc.ReceiveQueue == 0 {
		uc.ReceiveQueue = defaultReceiveQueue
	}
	if want, err := netip.ParseAddr(cfg.Interface); err == nil && !uc.Range.IsValid() && want.Unmap().Is6() {
		uc.Range = defaultRange6
	}
	rc.IPv6 = uc.Range.Addr().Is6()
	name, local, err := find(cfg.Interface, rc.IPv6)
	if err != nil {
		return nil, err
	}
	rc.Interfaces, uc.Local = []string{name}, local
	p, err := roce.Open(rc)
	if err != nil {
		return nil, fmt.Errorf("roce: %w", err)
	}
	uc.Provider = p
	t := &Transport{provider: p, device: name, ipv6: rc.IPv6}
	if t.Transport, err = ud.Open(uc); err != nil {
		p.Close() // it always succeeds
		return nil, fmt.Errorf("roce: %w", err)
	}
	t.capacity, _ = p.Capacity(name, t.Transport.Capabilities().PacketSize) // the device exists
	return t, nil
}

// Capabilities implements transport.Transport. Datagrams between two Polls wait in a socket, so their
// number is what fits its buffer.
func (t *Transport) Capabilities() transport.Capabilities {
	c := t.Transport.Capabilities()
	c.ReceiveCapacity = max(1, t.capacity)
	c.MaxTrain = min(c.MaxTrain, maxDatagram/(c.PacketSize/2+perPacket))
	c.MaxTrainBytes = c.MaxTrain * c.PacketSize
	c.PeersUnchecked = !t.ipv6 // without privileges the ICRC is not checked completely
	return c
}

// A train is one UDP datagram to the kernel, which costs about the same whatever its length. Messages of more than half
// a packet fill packets at least half, so a full train of such packets is sent with one call; trains of longer packets
// are divided into equal parts. maxDatagram is the largest UDP payload over IPv4, and perPacket the overhead of a
// packet: headers of the reliable layer, BTH, DETH, pad and ICRC. In bytes.
const (
	maxDatagram = 65507
	perPacket   = 96
)

// Stats implements transport.Transport.
func (t *Transport) Stats() transport.Stats {
	s := t.Transport.Stats()
	r := t.RoCE()
	s.ReceiveOverflow += r.Overflow
	s.Damaged += r.Malformed + r.ICRCErrors
	return s
}

// find returns the interface with a name or address, and its address: the given one, or its first of the family. A
// link-local address is used if there is no other.
func find(name string, ipv6 bool) (string, netip.Addr, error) {
	family := "IPv4"
	if ipv6 {
		family = "IPv6"
	}
	want, _ := netip.ParseAddr(name)
	if want = want.Unmap().WithZone(""); want.IsValid() && want.Is6() != ipv6 {
		return "", netip.Addr{}, fmt.Errorf("roce: %v is not an %s address, and the groups are %s: give groups and an address of the same family", want, family, family)
	}
	links, err := sys.Interfaces()
	if err != nil {
		return "", netip.Addr{}, fmt.Errorf("roce: %w", err)
	}
	var lo, loName = netip.Addr{}, ""
	for _, l := range links {
		if !want.IsValid() && name != "" && l.Name != name || l.Flags&net.FlagUp == 0 && l.Name != name {
			continue
		}
		list, err := addrs(&l)
		if err != nil {
			return "", netip.Addr{}, fmt.Errorf("roce: %w", err)
		}
		for _, a := range list {
			switch {
			case want.IsValid() && a != want, a.Is6() != ipv6:
				continue
			case name == "" && l.Flags&net.FlagLoopback != 0:
				if loName == "" {
					lo, loName = a, l.Name
				}
				continue
			case name == "" && !multicast.Can(&l):
				continue
			}
			if err := multicast.Check(&l, !ipv6); err != nil {
				return "", netip.Addr{}, fmt.Errorf("roce: %w", err)
			}
			return l.Name, a, nil
		}
	}
	switch {
	case loName != "":
		return loName, lo, nil
	case want.IsValid():
		return "", netip.Addr{}, fmt.Errorf("roce: no interface has the address %v", want)
	case name != "":
		// The error of roce.Open is more precise, unless the interface lacks only an address of this family.
		if _, err := roce.Open(roce.Config{Interfaces: []string{name}}); err != nil {
			return "", netip.Addr{}, fmt.Errorf("roce: %w", err)
		}
		return "", netip.Addr{}, fmt.Errorf("roce: interface %s has no %s address, and the groups are %s: give it one, or use a range of the other family", name, family, family)
	}
	return "", netip.Addr{}, fmt.Errorf("roce: no interface is up with an %s address", family)
}

// addrs are the addresses of an interface, link-local ones of IPv6 as the last.
func addrs(l *net.Interface) ([]netip.Addr, error) {
	list, err := sys.InterfaceAddrs(l)
	slices.SortStableFunc(list, func(a, b netip.Addr) int {
		switch linkLocal := a.Is6() && a.IsLinkLocalUnicast(); {
		case linkLocal == (b.Is6() && b.IsLinkLocalUnicast()):
			return 0
		case linkLocal:
			return 1
		}
		return -1
	})
	return list, err
}

// Poll implements transport.Transport. The Poll that reports the end closes the provider.
func (t *Transport) Poll(b *transport.Batch) error {
	err := t.Transport.Poll(b)
	if err != nil {
		t.once.Do(func() { t.provider.Close() }) // it always succeeds
	}
	return err
}

// Device is the name of the device, which equals that of its interface.
func (t *Transport) Device() string { return t.device }

// RoCE returns the counters of the device.
func (t *Transport) RoCE() roce.Stats {
	s, _ := t.provider.Stats(t.device) // it exists
	return s
}

package soft

import (
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// HostConfig describes a host.
type HostConfig struct {
	Provider string // name of the provider
	// Privileged: the host has CAP_NET_RAW, and may set Q_Keys with bit 31.
	Privileged bool
	// Loopback: a port may own a loopback address, so that ids can be bound to it. The kernel has no RDMA on its loopback
	// interface, and treats such an address as the wildcard address.
	Loopback bool
	// JoinIPv6: the connection manager joins IPv6 groups on RoCEv2. The kernel's does not.
	JoinIPv6 bool
}

// Host has the devices of one host and their connection manager. It implements rdma.Provider.
type Host struct {
	cfg HostConfig

	// cm guards the list of devices, the routes, and all state of event channels, ids, memberships and groups of ports.
	cm      sync.Mutex
	devices []*Device
	routes  []route
	ids     []*ID
}

type route struct {
	dst netip.Prefix
	src netip.Addr
}

// NewHost returns a host without devices.
func NewHost(cfg HostConfig) *Host { return &Host{cfg: cfg} }

// Name returns the provider's name.
func (h *Host) Name() string { return h.cfg.Provider }

// AddRoute makes ResolveAddr without a source choose the port with src for destinations in dst. The longest prefix
// wins.
func (h *Host) AddRoute(dst netip.Prefix, src netip.Addr) {
	h.cm.Lock()
	defer h.cm.Unlock()
	h.routes = append(h.routes, route{dst.Masked(), src})
}

// Devices lists the names of the devices.
func (h *Host) Devices() ([]string, error) {
	h.cm.Lock()
	defer h.cm.Unlock()
	names := make([]string, 0, len(h.devices))
	for _, d := range h.devices {
		names = append(names, d.cfg.Attr.Name)
	}
	return names, nil
}

// OpenDevice opens a device by name.
func (h *Host) OpenDevice(name string) (rdma.Device, error) {
	h.cm.Lock()
	defer h.cm.Unlock()
	i := slices.IndexFunc(h.devices, func(d *Device) bool { return d.cfg.Attr.Name == name })
	if i < 0 {
		return nil, rdma.Errorf("open device", syscall.ENODEV, "no device %q", name)
	}
	return h.devices[i].open(), nil
}

// NewEventChannel opens an event channel.
func (h *Host) NewEventChannel() (rdma.EventChannel, error) { return newEventChannel(h), nil }

// sourceFor looks up the route. The caller holds cm.
func (h *Host) sourceFor(dst netip.Addr) (netip.Addr, bool) {
	best, bits := netip.Addr{}, -1
	for _, r := range h.routes {
		if r.dst.Contains(dst) && r.dst.Bits() > bits {
			best, bits = r.src, r.dst.Bits()
		}
	}
	return best, bits >= 0
}

// portOf finds the port that owns an address. The caller holds cm.
func (h *Host) portOf(a rdma.Addr) *port {
	for _, d := range h.devices {
		for _, p := range d.ports {
			s := p.state.Load()
			if a.Family == rdma.FamilyIB {
				if slices.ContainsFunc(s.GIDs, func(e rdma.GIDEntry) bool { return e.GID == a.GID }) {
					return p
				}
			} else if slices.Contains(s.Addrs, a.IP) {
				return p
			}
		}
	}
	return nil
}

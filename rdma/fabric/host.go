package fabric

import (
	"fmt"
	"net/netip"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// Host is a host on the fabric. It implements rdma.Provider.
type Host struct {
	f    *Fabric
	cfg  HostConfig
	soft *soft.Host
	hcas []*hca
	err  error // error of cfg
}

var _ rdma.Provider = (*Host)(nil)

// Name returns the name of the provider: "fabric".
func (h *Host) Name() string { return h.soft.Name() }

// HostName returns the name of the host.
func (h *Host) HostName() string { return h.cfg.Name }

// Devices lists the host's devices.
func (h *Host) Devices() ([]string, error) {
	if h.err != nil {
		return nil, h.err
	}
	return h.soft.Devices()
}

// OpenDevice opens a device of the host.
func (h *Host) OpenDevice(name string) (rdma.Device, error) {
	if h.err != nil {
		return nil, h.err
	}
	return h.soft.OpenDevice(name)
}

// NewEventChannel opens an event channel.
func (h *Host) NewEventChannel() (rdma.EventChannel, error) {
	if h.err != nil {
		return nil, h.err
	}
	return h.soft.NewEventChannel()
}

// Port returns a port of a device; devices count from 0, ports from 1. It panics if there is none.
func (h *Host) Port(device, port int) *Port { return h.hcas[device].ports[port-1] }

// Addr returns the address of the first port, for rdma.ID.Bind.
func (h *Host) Addr() rdma.Addr { return h.Port(0, 1).Addr() }

// RemoveDevice removes a device, as a hot unplug does.
func (h *Host) RemoveDevice(device int) {
	c := h.hcas[device]
	for _, p := range c.ports {
		p.unplug()
	}
	c.dev.Remove()
}

// addDevice makes a device and connects its ports.
func (h *Host) addDevice(index int) {
	f := h.f
	c := &hca{f: f, host: h}
	attr := rdma.DeviceAttr{
		Name: fmt.Sprintf("sim%d", index), VendorID: 0x53494d, PhysPorts: max(h.cfg.Ports, 1),
		// The limits of rxe (kernel drivers/infiniband/sw/rxe/rxe_param.h).
		MaxQP: 1 << 16, MaxQPWR: 1 << 20, MaxSGE: 32, MaxCQ: 1 << 20, MaxCQE: 32767,
		MaxMR: 1 << 19, MaxPD: 1 << 20, MaxAH: 32767, MaxInlineData: 512,
		MaxMcastGrp: 8192, MaxMcastQPAttach: 56, MaxTotalMcastQPAttach: 0x70000,
	}
	if h.cfg.Limits != nil {
		h.cfg.Limits(&attr)
	}
	var states []soft.PortState
	f.mu.Lock()
	for num := range attr.PhysPorts {
		p := &Port{f: f, hca: c, num: uint8(num + 1), ipoib: true, igmp: map[rdma.GID]struct{}{},
			sw: f.switches[h.cfg.Switch%len(f.switches)]}
		f.ports = append(f.ports, p)
		p.serial = len(f.ports)
		p.sw.ports = append(p.sw.ports, p)
		c.ports = append(c.ports, p)
		states = append(states, p.plug())
	}
	attr.NodeGUID = c.ports[0].guid()
	f.mu.Unlock()
	c.dev = h.soft.NewDevice(soft.DeviceConfig{Attr: attr, Ports: states, BlockSelf: f.cfg.Flavor == InfiniBand}, c)
	h.hcas = append(h.hcas, c)
	f.mu.Lock()
	for _, p := range c.ports {
		p.up = true // only now, because events have a receiver
	}
	f.mu.Unlock()

	src := c.ports[0].ip()
	h.soft.AddRoute(netip.PrefixFrom(src, 16), src)
	if index == 0 && !h.cfg.NoMulticastRoute {
		h.soft.AddRoute(netip.MustParsePrefix("224.0.0.0/4"), src)
		h.soft.AddRoute(netip.MustParsePrefix("ff00::/8"), src)
	}
}

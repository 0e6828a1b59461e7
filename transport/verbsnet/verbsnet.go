// Package verbsnet is the fabric of RDMA devices: package transport/ud over package rdma/verbs, on InfiniBand and RoCE
// adapters and the kernel's Soft-RoCE. It works in programs built with the tag rdma; in others Open returns
// verbs.ErrNotBuilt, which has instructions.
package verbsnet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// Open makes an endpoint.
func Open(cfg Config) (*ud.Transport, error) {
	p, err := verbs.Open()
	if err != nil {
		return nil, err
	}
	return open(p, cfg)
}

func open(p rdma.Provider, cfg Config) (*ud.Transport, error) {
	uc := ud.Config{
		Provider: p, Range: cfg.Range, Groups: cfg.Groups, PacketSize: cfg.PacketSize,
		ReceiveQueue: cfg.ReceiveQueue, SendQueue: cfg.SendQueue, Arena: cfg.Arena, Peers: cfg.Peers, Logger: cfg.Logger,
	}
	if err := find(p, cfg, &uc); err != nil {
		return nil, err
	}
	return ud.Open(uc)
}

// find sets the configuration of package ud from the name of a device or interface, or an address. An address is passed
// on: the connection manager resolves it.
func find(p rdma.Provider, cfg Config, uc *ud.Config) error {
	ip, err := netip.ParseAddr(cfg.Device)
	switch {
	case cfg.Device == "":
		return nil
	case err == nil && cfg.Port != 0:
		return fmt.Errorf("rdma: %v names a port already; leave out port=%d", ip, cfg.Port)
	case err == nil:
		uc.Local = ip.Unmap()
		return nil
	}
	names, err := p.Devices()
	if err != nil {
		return err
	}
	if slices.Contains(names, cfg.Device) {
		uc.Device, uc.Port = cfg.Device, cfg.Port
		return nil
	}
	var known []string
	for _, name := range names {
		dev, err := p.OpenDevice(name)
		if err != nil {
			return err
		}
		ports, err := netdevs(dev)
		dev.Close()
		if err != nil {
			return err
		}
		if i := slices.Index(ports, cfg.Device); i >= 0 {
			if cfg.Port != 0 && cfg.Port != i+1 {
				return fmt.Errorf("rdma: interface %s is on port %d of %s; leave out port=%d", cfg.Device, i+1, name, cfg.Port)
			}
			uc.Device, uc.Port = name, i+1
			return nil
		}
		known = append(known, fmt.Sprintf("%s (interface %s)", name, strings.Join(ports, ", ")))
	}
	if len(known) == 0 {
		known = []string{"none"}
	}
	return fmt.Errorf("rdma: there is no RDMA device, and no interface of one, called %q: %w; devices are %s", cfg.Device, syscall.ENODEV, strings.Join(known, ", "))
}

// netdevs are the network interfaces of a device's ports.
func netdevs(dev rdma.Device) (list []string, err error) {
	attr, err := dev.Attr()
	if err != nil {
		return nil, err
	}
	for port := 1; port <= attr.PhysPorts; port++ {
		a, err := dev.Port(uint8(port))
		if err != nil {
			return nil, err
		}
		list = append(list, a.NetDev)
	}
	return list, nil
}

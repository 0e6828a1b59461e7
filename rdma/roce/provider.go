package roce

import (
	"sync"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// Provider provides RoCEv2 on the network interfaces of this host. It implements rdma.Provider.
type Provider struct {
	host    *soft.Host
	devices []*device
	work    work
	close   sync.Once
}

var _ rdma.Provider = (*Provider)(nil)

// Open returns a provider with the interfaces in cfg. Sockets are opened when they are first needed: an unused
// interface needs no resources, and if another program uses the port, creating a queue pair returns a *PortInUseError.
// Errors: EINVAL for an invalid Config, ENODEV, ENETDOWN or EADDRNOTAVAIL for an interface that does not exist, is down
// or has no address, EPERM for CheckFull without permission, ENOSYS on systems other than Linux.
func Open(cfg Config) (*Provider, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := supported(); err != nil {
		return nil, err
	}
	links, err := findLinks(&cfg)
	if err != nil {
		return nil, err
	}
	raw, err := canOpenRaw()
	if err != nil {
		return nil, err
	}
	if cfg.Check == CheckFull && !raw && !cfg.IPv6 {
		return nil, rdma.Errorf("open RoCE", syscall.EPERM, "CheckFull needs CAP_NET_RAW: run as root, or setcap cap_net_raw+ep on the program, or use CheckUDP")
	}
	p := &Provider{host: soft.NewHost(soft.HostConfig{Provider: "roce", Privileged: raw, Loopback: true, JoinIPv6: cfg.IPv6})}
	for _, l := range links {
		p.devices = append(p.devices, newDevice(p, &cfg, l, raw && cfg.Check != CheckUDP && !cfg.IPv6))
	}
	p.route()
	return p, nil
}

// Name returns the name of the provider: "roce".
func (p *Provider) Name() string { return p.host.Name() }

// Devices returns the names of the devices, which are those of their interfaces.
func (p *Provider) Devices() ([]string, error) { return p.host.Devices() }

// OpenDevice opens a device.
func (p *Provider) OpenDevice(name string) (rdma.Device, error) { return p.host.OpenDevice(name) }

// NewEventChannel opens an event channel.
func (p *Provider) NewEventChannel() (rdma.EventChannel, error) { return p.host.NewEventChannel() }

// Stats returns the counters of a device since Open. Error ENODEV: there is none with the name.
func (p *Provider) Stats(device string) (Stats, error) {
	for _, d := range p.devices {
		if d.link.name == device {
			return d.count.load(), nil
		}
	}
	return Stats{}, rdma.Errorf("read counters", syscall.ENODEV, "no device %q", device)
}

// Capacity returns the minimum number of datagrams with size bytes of payload that a socket of a device holds while it
// is not polled, in addition to the receive queues. It is 0 before the device's first queue pair. Error ENODEV: there
// is no device with the name.
func (p *Provider) Capacity(device string, size int) (int, error) {
	for _, d := range p.devices {
		if d.link.name == device {
			return d.capacity(size), nil
		}
	}
	return 0, rdma.Errorf("read buffer sizes", syscall.ENODEV, "no device %q", device)
}

// Close closes all sockets and ends all goroutines. Afterwards nothing is sent or received, but objects of the provider
// can still be closed. A second call has no effect.
func (p *Provider) Close() error {
	p.close.Do(func() {
		for _, d := range p.devices {
			d.close()
		}
		p.work.stop()
	})
	return nil
}

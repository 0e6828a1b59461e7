// Package simnet is the fabric of simulated RDMA subnets: endpoints of one process with the same name share a simulated
// subnet (package rdma/fabric), each as a separate host with package transport/ud on it. Use it to try RDMA multicast
// and its faults on any machine.
//
// The first endpoint creates the subnet with its options; the last one removes it.
package simnet

import (
	"errors"
	"fmt"
	"sync"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/ud"
)

// Transport is an endpoint: a transport/ud on a host of the subnet.
type Transport struct {
	*ud.Transport
	subnet *Subnet
	host   *fabric.Host
	once   sync.Once // for leaving the subnet
}

var _ transport.Transport = (*Transport)(nil)

// Subnet is a named subnet of this process.
type Subnet struct {
	name string
	opts SubnetConfig
	// Fabric observes and changes the subnet. It must not be closed.
	Fabric *fabric.Fabric

	users  int            // under registry; endpoints
	joined uint64         // under registry; endpoints ever attached
	hosts  []*fabric.Host // under registry; all
	idle   []*fabric.Host // under registry; hosts of ended endpoints
}

// Host returns host i, from 0 in the order of first use; it panics if there is none.
func (s *Subnet) Host(i int) *fabric.Host {
	registry.Lock()
	defer registry.Unlock()
	return s.hosts[i]
}

// Users is the number of endpoints and other hosts on the subnet.
func (s *Subnet) Users() int {
	registry.Lock()
	defer registry.Unlock()
	return s.users
}

// Joined is the number of endpoints and other hosts ever attached to the subnet.
func (s *Subnet) Joined() uint64 {
	registry.Lock()
	defer registry.Unlock()
	return s.joined
}

// registry holds the subnets of this process.
var registry = struct {
	sync.Mutex
	byName map[string]*Subnet
}{byName: make(map[string]*Subnet)}

// Lookup returns the subnet with a name, or nil if no endpoint is on it.
func Lookup(name string) *Subnet {
	registry.Lock()
	defer registry.Unlock()
	return registry.byName[name]
}

// Open attaches a new endpoint.
func Open(cfg Config) (*Transport, error) {
	subnet, host, err := Attach(cfg)
	if err != nil {
		return nil, err
	}
	tr, err := ud.Open(ud.Config{
		Provider: host, Groups: cfg.Groups, PacketSize: cfg.PacketSize,
		ReceiveQueue: cfg.ReceiveQueue, SendQueue: cfg.SendQueue, Peers: cfg.Peers, Logger: cfg.Logger,
	})
	if err != nil {
		subnet.Detach(host)
		return nil, fmt.Errorf("sim: %w", err)
	}
	return &Transport{Transport: tr, subnet: subnet, host: host}, nil
}

// Attach finds or makes the subnet that cfg names, and returns a host on it for uses other than an endpoint. Detach
// returns the host.
func Attach(cfg Config) (*Subnet, *fabric.Host, error) {
	registry.Lock()
	defer registry.Unlock()
	s, opts := registry.byName[cfg.Name], cfg.Subnet.withDefaults()
	if s == nil {
		s = &Subnet{name: cfg.Name, opts: opts, Fabric: fabric.New(opts.fabric())}
		registry.byName[cfg.Name] = s
	} else if cfg.explicit && opts != s.opts {
		return nil, nil, fmt.Errorf("sim: subnet %q exists with other options (%v); leave out the subnet's options, or give the same", cfg.Name, s.opts)
	}
	s.users++
	s.joined++
	if n := len(s.idle); n > 0 {
		host := s.idle[n-1]
		s.idle = s.idle[:n-1]
		return s, host, nil
	}
	s.hosts = append(s.hosts, s.Fabric.AddHost(fabric.HostConfig{Limits: limits}))
	return s, s.hosts[len(s.hosts)-1], nil
}

// limits raises the number of queue pairs of a device that can be attached to one group: the fabric's 56, as of
// Soft-RoCE, are fewer than programs for real adapters may need.
func limits(a *rdma.DeviceAttr) { a.MaxMcastQPAttach = 256 }

// Detach returns a host on which nothing is open. A host with a changed port is not reused.
func (s *Subnet) Detach(host *fabric.Host) {
	registry.Lock()
	s.users--
	last := s.users == 0
	if last {
		delete(registry.byName, s.name)
	} else if host.Port(0, 1).AsNew() {
		s.idle = append(s.idle, host)
	}
	registry.Unlock()
	if last {
		_ = s.Fabric.Close() // it always succeeds
	}
}

// Poll implements transport.Transport. The Poll that reports the end leaves the subnet.
func (t *Transport) Poll(b *transport.Batch) error {
	err := t.Transport.Poll(b)
	if err != nil {
		t.once.Do(func() { t.subnet.Detach(t.host) })
	}
	return err
}

// Subnet returns the endpoint's subnet.
func (t *Transport) Subnet() *Subnet { return t.subnet }

// Host returns the endpoint's host.
func (t *Transport) Host() *fabric.Host { return t.host }

// MGID is the multicast GID that a group has on the subnet.
func (t *Transport) MGID(group int) rdma.GID {
	addr := t.GroupAddr(group)
	if t.subnet.opts.Flavor == fabric.RoCE {
		return rdma.MGIDForRoCE(addr, rdma.GIDTypeRoCEv2)
	}
	return rdma.MGIDForIB(addr, rdma.PortSpaceUDP, rdma.DefaultScope, rdma.DefaultPKey)
}

var errName = errors.New("the name of the subnet goes between sim:// and the options: sim://name?loss=0.01")

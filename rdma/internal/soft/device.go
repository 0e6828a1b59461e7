package soft

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// DeviceConfig describes a device.
type DeviceConfig struct {
	Attr  rdma.DeviceAttr
	Ports []PortState
	// BlockSelf: the device supports rdma.QPBlockSelfMulticast.
	BlockSelf bool
}

// Device is a simulated adapter. handle is the opened device.
type Device struct {
	host     *Host
	cfg      DeviceConfig
	backend  Backend
	ports    []*port
	removed  atomic.Bool
	nextQPN  atomic.Uint32
	cmHandle *handle // the connection manager's handle, for ids

	qps, cqs, mrs, pds, ahs atomic.Int64 // numbers of objects, for the limits
	armed                   atomic.Int64 // armed completion queues that are used for receiving
	stalled                 atomic.Int64 // queue pairs that the backend must resume

	mcast mcastTable

	unicast sync.Map // rdma.QPN -> *QP

	handlesMu sync.Mutex
	handles   map[*handle]struct{}
}

// firstQPN is above QP0 and QP1, which are for management.
const firstQPN = 17

// NewDevice adds a device to a host.
func (h *Host) NewDevice(cfg DeviceConfig, backend Backend) *Device {
	d := &Device{host: h, cfg: cfg, backend: backend, handles: map[*handle]struct{}{}}
	d.nextQPN.Store(firstQPN)
	d.mcast.groups = map[rdma.GID]*mcastGroup{}
	for i := range cfg.Ports {
		p := &port{dev: d, num: uint8(i + 1), groups: map[rdma.GID]*ibGroup{}, ipGroups: map[netip.Addr]int{}}
		state := cfg.Ports[i]
		p.state.Store(&state)
		d.ports = append(d.ports, p)
	}
	d.cmHandle = d.open()
	d.cmHandle.ofCM = true
	h.cm.Lock()
	defer h.cm.Unlock()
	h.devices = append(h.devices, d)
	return d
}

// Armed reports whether a completion queue of the device is armed for received messages, or a queue pair waits for
// Resume.
func (d *Device) Armed() bool { return d.armed.Load() > 0 || d.stalled.Load() > 0 }

// Name returns the name of the device.
func (d *Device) Name() string { return d.cfg.Attr.Name }

// PortState returns a copy of a port's state.
func (d *Device) PortState(num uint8) PortState { return *d.ports[num-1].state.Load() }

// UpdatePort changes a port's state.
func (d *Device) UpdatePort(num uint8, change func(*PortState)) {
	d.host.cm.Lock()
	defer d.host.cm.Unlock()
	p := d.ports[num-1]
	s := *p.state.Load()
	s.PKeys, s.GIDs, s.Addrs = slices.Clone(s.PKeys), slices.Clone(s.GIDs), slices.Clone(s.Addrs)
	change(&s)
	p.state.Store(&s)
}

func (d *Device) port(num uint8) *port {
	if num < 1 || int(num) > len(d.ports) {
		return nil
	}
	return d.ports[num-1]
}

// Async delivers an event of a port, or of the device itself, to all handles of the device. Events of a queue are
// delivered to the handle that created it.
func (d *Device) Async(ev rdma.AsyncEvent) {
	d.handlesMu.Lock()
	defer d.handlesMu.Unlock()
	for h := range d.handles {
		h.async.push(ev)
	}
}

func (d *Device) open() *handle {
	h := &handle{dev: d, async: newMailbox[rdma.AsyncEvent]("device", 64)}
	d.handlesMu.Lock()
	defer d.handlesMu.Unlock()
	d.handles[h] = struct{}{}
	return h
}

// acquire increments the number of objects unless its limit is reached.
func acquire(count *atomic.Int64, limit int) bool {
	if count.Add(1) > int64(limit) {
		count.Add(-1)
		return false
	}
	return true
}

// handle is an opened device, struct ibv_context.
type handle struct {
	dev     *Device
	ofCM    bool // the connection manager's handle, which is never closed
	async   *mailbox[rdma.AsyncEvent]
	objects atomic.Int64 // open objects made from it
}

// usable returns an error if the handle is closed or its device was removed.
func (h *handle) usable(op string) error {
	if h.async.isClosed() {
		return rdma.ClosedError(op, "device")
	}
	if h.dev.removed.Load() {
		return rdma.Errorf(op, syscall.ENODEV, "the device %s was removed", h.dev.Name())
	}
	return nil
}

func (h *handle) Name() string { return h.dev.Name() }

func (h *handle) Attr() (rdma.DeviceAttr, error) {
	return h.dev.cfg.Attr, h.usable("query device")
}

func (h *handle) portOf(op string, num uint8) (*port, error) {
	if err := h.usable(op); err != nil {
		return nil, err
	}
	p := h.dev.port(num)
	if p == nil {
		return nil, rdma.Errorf(op, syscall.EINVAL, "no port %d", num)
	}
	return p, nil
}

func (h *handle) Port(num uint8) (rdma.PortAttr, error) {
	p, err := h.portOf("query port", num)
	if err != nil {
		return rdma.PortAttr{}, err
	}
	return p.attr(), nil
}

// PortCounts implements rdma.PortCounting.
func (h *handle) PortCounts(num uint8) (rdma.PortAttr, error) {
	p, err := h.portOf("query port", num)
	if err != nil {
		return rdma.PortAttr{}, err
	}
	return p.counts(p.state.Load()), nil
}

func (h *handle) GIDs(num uint8) ([]rdma.GIDEntry, error) {
	p, err := h.portOf("query GIDs", num)
	if err != nil {
		return nil, err
	}
	return slices.Clone(p.state.Load().GIDs), nil
}

func (h *handle) PKeys(num uint8) ([]rdma.PKey, error) {
	p, err := h.portOf("query P_Keys", num)
	if err != nil {
		return nil, err
	}
	return slices.Clone(p.state.Load().PKeys), nil
}

func (h *handle) TryGetAsyncEvent() (rdma.AsyncEvent, error) { return h.async.pop("get async event") }

func (h *handle) GetAsyncEvent(ctx context.Context) (rdma.AsyncEvent, error) {
	return await(ctx, h.async, h.TryGetAsyncEvent)
}

// NewWaiter implements rdma.Waiting.
func (h *handle) NewWaiter() (rdma.Waiter, error) {
	if err := h.usable("create waiter"); err != nil {
		return nil, err
	}
	return h.dev.backend.NewWaiter()
}

func (h *handle) Close() error {
	const op = "close device"
	if h.ofCM {
		return rdma.Errorf(op, syscall.EINVAL, "the device belongs to an id")
	}
	if n := h.objects.Load(); n > 0 {
		return rdma.Errorf(op, syscall.EBUSY, "it has %d open objects", n)
	}
	if !h.async.close() {
		return rdma.ClosedError(op, "device")
	}
	h.dev.handlesMu.Lock()
	defer h.dev.handlesMu.Unlock()
	delete(h.dev.handles, h)
	return nil
}

func (h *handle) String() string { return fmt.Sprintf("device %s", h.dev.Name()) }

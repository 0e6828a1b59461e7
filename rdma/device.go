package rdma

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// Provider is one way to RDMA devices: a host of the simulated subnet, the network interfaces of this host, rdma-core.
type Provider interface {
	// Name of the provider ("fabric", "roce", "verbs").
	Name() string
	// Devices lists the names of the devices; ibv_get_device_list(3). Without any the list is empty and the error nil;
	// ENOSYS says that this host has no RDMA at all.
	Devices() ([]string, error)
	// OpenDevice opens a device by name; ibv_open_device(3). ENODEV: there is none of that name.
	OpenDevice(name string) (Device, error)
	// NewEventChannel opens a channel for the events of ids; rdma_create_event_channel(3). ENODEV: this host has no RDMA.
	NewEventChannel() (EventChannel, error)
}

// Device is an opened device: ibv_open_device(3).
type Device interface {
	// Name of the device ("mlx5_0").
	Name() string
	// Attr are the device's limits, which do not change; ibv_query_device(3).
	Attr() (DeviceAttr, error)
	// Port returns the state of a port. Ports are numbered from 1; ibv_query_port(3). EINVAL: there is no such port.
	Port(port uint8) (PortAttr, error)
	// GIDs is the GID table of a port without its empty entries; ibv_query_gid_table(3).
	GIDs(port uint8) ([]GIDEntry, error)
	// PKeys is the P_Key table of a port, entry by index, 0 where empty; ibv_query_pkey(3).
	PKeys(port uint8) ([]PKey, error)

	// AllocPD makes a protection domain; ibv_alloc_pd(3).
	AllocPD() (PD, error)
	// NewCompChannel opens a channel for the notifications of completion queues; ibv_create_comp_channel(3).
	NewCompChannel() (CompChannel, error)
	// CreateCQ makes a completion queue for at least entries completions, with an optional channel; context is handed back
	// by CompChannel.Wait. ibv_create_cq(3). EINVAL: entries is below 1 or above MaxCQE.
	CreateCQ(entries int, ch CompChannel, context any) (CQ, error)

	// TryGetAsyncEvent returns the next event of the device itself, or ErrNoEvent; ibv_get_async_event(3). Events are
	// acknowledged by retrieving them. The queue holds the latest 64.
	TryGetAsyncEvent() (AsyncEvent, error)
	// GetAsyncEvent waits for one.
	GetAsyncEvent(ctx context.Context) (AsyncEvent, error)

	// Close closes the device. EBUSY: objects made from it are still open.
	Close() error
}

// DeviceAttr are limits of a device (struct ibv_device_attr). Numbers are counts of objects unless they say otherwise.
type DeviceAttr struct {
	Name      string
	NodeGUID  uint64
	VendorID  uint32
	PhysPorts int

	MaxQP   int
	MaxQPWR int // work requests in one queue
	MaxSGE  int // scatter/gather elements in one work request
	MaxCQ   int
	MaxCQE  int // completions in one queue
	MaxMR   int
	MaxPD   int
	MaxAH   int
	// MaxMcastGrp is the number of multicast groups that queue pairs of the
	// device can be attached to; 0 says that it has no multicast at all.
	MaxMcastGrp int
	// MaxMcastQPAttach is the number of queue pairs on one group.
	MaxMcastQPAttach int
	// MaxTotalMcastQPAttach is the number of attachments in all; at most MaxMcastGrp * MaxMcastQPAttach.
	MaxTotalMcastQPAttach int
	// MaxInlineData is the largest QPCap.MaxInlineData in bytes.
	MaxInlineData int

	// EqualRuns means that a run of messages of one size, posted together, costs much less than messages of
	// several sizes: a device in software sends it as one UDP GSO train. It is no attribute of verbs.
	EqualRuns bool
	// NoICRC means that received messages were not checked against their invariant CRC (IBTA 7.8.1; annex A17):
	// a program that needs certainty adds its own check. It is no attribute of verbs.
	NoICRC bool
}

// LinkLayer of a port: what decides which rules of this package apply.
type LinkLayer uint8

const (
	LinkLayerUnspecified LinkLayer = iota
	LinkLayerInfiniBand
	LinkLayerEthernet // RoCE
)

func (l LinkLayer) String() string {
	return [...]string{"unspecified", "InfiniBand", "Ethernet"}[min(l, LinkLayerEthernet)]
}

// PortState is enum ibv_port_state.
type PortState uint8

const (
	PortNop PortState = iota
	PortDown
	PortInit
	PortArmed
	PortActive
)

func (s PortState) String() string {
	return [...]string{"nop", "down", "init", "armed", "active"}[min(s, PortActive)]
}

// PortAttr is the state of a port (struct ibv_port_attr).
type PortAttr struct {
	State     PortState
	LinkLayer LinkLayer
	// MaxMTU and ActiveMTU are in bytes: payload, without any header.
	MaxMTU, ActiveMTU MTU
	// LID and SMLID are 0 on RoCE.
	LID, SMLID   LID
	GIDTableLen  int
	PKeyTableLen int
	// BadPKeys counts datagrams with a P_Key that the port does not have (IBTA P_KeyViolations).
	BadPKeys uint64
	// QKeyViolations counts datagrams with another Q_Key than the queue pair's.
	QKeyViolations uint64
	// RateGbps is the speed of the link in gigabits per second.
	RateGbps float64
	// NetDev is the name of the network interface (IPoIB or Ethernet), and
	// Addrs are its addresses, by which ids are bound to the port.
	NetDev string
	Addrs  []netip.Addr
	// Dropped counts datagrams that reached the port and no queue pair: no receive was posted, or it was too small, or
	// none was attached. With verbs it is the first of these alone, of adapters that count it (mlx5). A provider without a
	// counter leaves it 0.
	Dropped uint64
}

// GIDType is the kind of a GID table entry (enum ibv_gid_type).
type GIDType uint8

const (
	GIDTypeIB GIDType = iota
	GIDTypeRoCEv1
	GIDTypeRoCEv2
)

func (t GIDType) String() string {
	return [...]string{"IB", "RoCE v1", "RoCE v2"}[min(t, GIDTypeRoCEv2)]
}

// GIDEntry is an entry of a port's GID table (struct ibv_gid_entry).
type GIDEntry struct {
	GID    GID
	Index  int
	Port   uint8
	Type   GIDType
	NetDev string // of RoCE
}

// AsyncEventType is enum ibv_event_type, with its values.
type AsyncEventType int

const (
	AsyncCQErr          AsyncEventType = 0
	AsyncQPFatal        AsyncEventType = 1
	AsyncDeviceFatal    AsyncEventType = 8
	AsyncPortActive     AsyncEventType = 9
	AsyncPortErr        AsyncEventType = 10
	AsyncLIDChange      AsyncEventType = 11
	AsyncPKeyChange     AsyncEventType = 12
	AsyncSMChange       AsyncEventType = 13
	AsyncClientReregist AsyncEventType = 17
	AsyncGIDChange      AsyncEventType = 18
)

func (t AsyncEventType) String() string {
	switch t {
	case AsyncCQErr:
		return "CQ error"
	case AsyncQPFatal:
		return "QP fatal"
	case AsyncDeviceFatal:
		return "device fatal"
	case AsyncPortActive:
		return "port active"
	case AsyncPortErr:
		return "port error"
	case AsyncLIDChange:
		return "LID change"
	case AsyncPKeyChange:
		return "P_Key change"
	case AsyncSMChange:
		return "SM change"
	case AsyncClientReregist:
		return "client re-register"
	case AsyncGIDChange:
		return "GID change"
	}
	return fmt.Sprintf("AsyncEventType(%d)", int(t))
}

// AsyncEvent reports an event of a device, a port (Port > 0), a QP or a CQ (struct ibv_async_event).
type AsyncEvent struct {
	Type AsyncEventType
	Port uint8
	QP   QP
	CQ   CQ
}

// Pending is an operation that was begun and ends by itself (BeginLeave, BeginDestroy).
type Pending interface {
	// Done reports, without waiting, whether the operation has ended.
	Done() bool
	// Wait waits for the end, and returns the operation's error. When ctx ends first it returns ctx's
	// error, and the operation continues.
	Wait(ctx context.Context) error
}

// ResolveTimeout is a sound timeout for ID.ResolveAddr and ResolveRoute.
const ResolveTimeout = 2 * time.Second

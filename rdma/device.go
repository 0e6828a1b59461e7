package rdma

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// Provider gives access to RDMA devices: those of a simulated host (rdma/fabric), the network interfaces of this host
// (rdma/roce), or rdma-core (rdma/verbs).
type Provider interface {
	// Name of the provider ("fabric", "roce", "verbs").
	Name() string
	// Devices returns the names of the devices; ibv_get_device_list(3). If there are none, the list is empty and the error
	// nil. Error ENOSYS: this host has no RDMA at all.
	Devices() ([]string, error)
	// OpenDevice opens the device with the name; ibv_open_device(3). Error ENODEV: there is none.
	OpenDevice(name string) (Device, error)
	// NewEventChannel opens a channel for the events of ids; rdma_create_event_channel(3). Error ENODEV: this host has no
	// RDMA.
	NewEventChannel() (EventChannel, error)
}

// Device is an opened device: ibv_open_device(3).
type Device interface {
	// Name of the device ("mlx5_0").
	Name() string
	// Attr returns the device's limits, which are constant; ibv_query_device(3).
	Attr() (DeviceAttr, error)
	// Port returns the state of a port. Ports are numbered from 1; ibv_query_port(3). Error EINVAL: there is no such port.
	Port(port uint8) (PortAttr, error)
	// GIDs returns the GID table of a port without its empty entries; ibv_query_gid_table(3).
	GIDs(port uint8) ([]GIDEntry, error)
	// PKeys returns the P_Key table of a port by index; empty entries are 0. ibv_query_pkey(3).
	PKeys(port uint8) ([]PKey, error)

	// AllocPD makes a protection domain; ibv_alloc_pd(3).
	AllocPD() (PD, error)
	// NewCompChannel opens a channel for the notifications of completion queues; ibv_create_comp_channel(3).
	NewCompChannel() (CompChannel, error)
	// CreateCQ makes a completion queue for at least entries completions, with an optional channel. CQ.Context returns
	// context. ibv_create_cq(3). Error EINVAL: entries is below 1 or above MaxCQE.
	CreateCQ(entries int, ch CompChannel, context any) (CQ, error)

	// TryGetAsyncEvent returns the next event of the device itself, or ErrNoEvent; ibv_get_async_event(3). Events are
	// acknowledged by retrieving them. The queue holds the latest 64.
	TryGetAsyncEvent() (AsyncEvent, error)
	// GetAsyncEvent waits for the next event.
	GetAsyncEvent(ctx context.Context) (AsyncEvent, error)

	// Close closes the device. Error EBUSY: objects made from it are still open.
	Close() error
}

// DeviceAttr has the limits of a device (struct ibv_device_attr). Limits are numbers of objects unless stated
// otherwise.
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
	// MaxMcastGrp is the number of multicast groups to which queue pairs of the device can be attached; 0: the device does
	// not support multicast.
	MaxMcastGrp int
	// MaxMcastQPAttach is the number of queue pairs attached to one group.
	MaxMcastQPAttach int
	// MaxTotalMcastQPAttach is the total number of attachments; at most MaxMcastGrp * MaxMcastQPAttach.
	MaxTotalMcastQPAttach int
	// MaxInlineData is the largest QPCap.MaxInlineData in bytes.
	MaxInlineData int

	// EqualRuns: messages of the same size that are posted together cost much less than messages of different sizes,
	// because a software device sends them as one UDP GSO train. Verbs has no such attribute.
	EqualRuns bool
	// NoICRC: the invariant CRC of received messages was not checked (IBTA 7.8.1; annex A17). A program that must detect
	// damage needs its own checksum. Verbs has no such attribute.
	NoICRC bool
}

// LinkLayer of a port: InfiniBand or Ethernet (RoCE).
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
	// MaxMTU and ActiveMTU are payload bytes, without headers.
	MaxMTU, ActiveMTU MTU
	// LID and SMLID are 0 on RoCE.
	LID, SMLID   LID
	GIDTableLen  int
	PKeyTableLen int
	// BadPKeys counts received datagrams with a P_Key that the port does not have (IBTA P_KeyViolations).
	BadPKeys uint64
	// QKeyViolations counts received datagrams with another Q_Key than the queue pair's.
	QKeyViolations uint64
	// RateGbps is the speed of the link in gigabits per second.
	RateGbps float64
	// NetDev is the name of the network interface (IPoIB or Ethernet). Addrs has its addresses, to which ids can be bound.
	NetDev string
	Addrs  []netip.Addr
	// Dropped counts datagrams that reached the port but no queue pair: no receive was posted, it was too small, or no
	// queue pair was attached. With verbs it counts only the first of these, if the adapter does (mlx5). It is 0 if the
	// provider has no counter.
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
	NetDev string // only of RoCE
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

// Pending is an operation in progress (BeginLeave, BeginDestroy).
type Pending interface {
	// Done reports, without waiting, whether the operation has ended.
	Done() bool
	// Wait waits for the end and returns the operation's error. If ctx ends first, it returns ctx's error, and the
	// operation continues.
	Wait(ctx context.Context) error
}

// ResolveTimeout is a suitable timeout for ID.ResolveAddr and ResolveRoute.
const ResolveTimeout = 2 * time.Second

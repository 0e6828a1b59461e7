package soft

import (
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// cmState is the state of an id (kernel core/cma.c, enum rdma_cm_state).
type cmState uint8

const (
	cmIdle cmState = iota
	cmAddrQuery
	cmAddrBound
	cmAddrResolved
	cmRouteQuery
	cmRouteResolved
	cmDeviceRemoval
)

func (s cmState) String() string {
	return [...]string{"idle", "resolving its address", "bound", "address resolved",
		"resolving its route", "route resolved", "without its device"}[s]
}

// ID is an identifier of the connection manager. Host.cm guards its changing fields.
type ID struct {
	host    *Host
	ch      *EventChannel
	ps      rdma.PortSpace
	context any

	state     cmState
	local     rdma.Addr
	port      *port // nil: bound to no device
	sgidIndex int
	qp        *QP
	members   []*membership // the latest first

	reported, acked int      // numbers of events
	destroying      *pending // not nil: destroyed
}

// CreateID makes an id.
func (c *EventChannel) CreateID(ps rdma.PortSpace, context any) (rdma.ID, error) {
	const op = "create id"
	if !ps.IsUD() && ps != rdma.PortSpaceTCP && ps != rdma.PortSpaceIB {
		return nil, rdma.Errorf(op, syscall.EINVAL, "no port space %v", ps)
	}
	c.host.cm.Lock()
	defer c.host.cm.Unlock()
	if c.box.isClosed() {
		return nil, rdma.ClosedError(op, "event channel")
	}
	c.ids++
	id := &ID{host: c.host, ch: c, ps: ps, context: context}
	c.host.ids = append(c.host.ids, id)
	return id, nil
}

// PortSpace returns the port space given at creation.
func (id *ID) PortSpace() rdma.PortSpace { return id.ps }

// Context returns the context given at creation.
func (id *ID) Context() any { return id.context }

// lock locks Host.cm for a call on the id, and returns an error if the id must not be used. The caller unlocks.
func (id *ID) lock(op string) error {
	id.host.cm.Lock()
	if id.destroying != nil {
		return rdma.ClosedError(op, "id")
	}
	return nil
}

// bound is lock for calls that need a device.
func (id *ID) bound(op string) error {
	if err := id.lock(op); err != nil {
		return err
	}
	if id.port == nil {
		return rdma.Errorf(op, syscall.EINVAL, "the id is bound to no device")
	}
	return nil
}

// Device returns the device to which the id is bound.
func (id *ID) Device() (rdma.Device, error) {
	err := id.bound("device of id")
	defer id.host.cm.Unlock()
	if err != nil {
		return nil, err
	}
	return id.port.dev.cmHandle, nil
}

// Port returns the port to which the id is bound.
func (id *ID) Port() uint8 {
	id.host.cm.Lock()
	defer id.host.cm.Unlock()
	if id.port == nil {
		return 0
	}
	return id.port.num
}

// Local returns the port and GID from which the id sends.
func (id *ID) Local() (rdma.Local, error) {
	err := id.bound("local side of id")
	defer id.host.cm.Unlock()
	if err != nil {
		return rdma.Local{}, err
	}
	return rdma.Local{Port: id.port.num, LinkLayer: id.port.state.Load().LinkLayer, SGIDIndex: id.sgidIndex}, nil
}

// LocalAddr returns the address to which the id is bound.
func (id *ID) LocalAddr() rdma.Addr {
	id.host.cm.Lock()
	defer id.host.cm.Unlock()
	return id.local
}

// QP returns the queue pair of CreateQP.
func (id *ID) QP() rdma.QP {
	id.host.cm.Lock()
	defer id.host.cm.Unlock()
	if id.qp == nil {
		return nil
	}
	return id.qp
}

// CreateQP makes the id's queue pair and takes a UD one to RTS, as librdmacm does (cma.c, ucma_init_ud_qp).
func (id *ID) CreateQP(pd rdma.PD, attr rdma.QPInitAttr) (rdma.QP, error) {
	const op = "create QP of id"
	err := id.bound(op)
	defer id.host.cm.Unlock()
	if err != nil {
		return nil, err
	}
	p, ok := pd.(*PD)
	switch {
	case !ok || p == nil || p.on.dev != id.port.dev:
		return nil, rdma.Errorf(op, syscall.EINVAL, "the PD is not one of the id's device")
	case id.qp != nil:
		return nil, rdma.Errorf(op, syscall.EINVAL, "the id already has a queue pair")
	}
	wanted := rdma.QPTypeRC
	if id.ps.IsUD() {
		wanted = rdma.QPTypeUD
	}
	if attr.Type != 0 && attr.Type != wanted {
		return nil, rdma.Errorf(op, syscall.EINVAL, "port space %v has queue pairs of another type", id.ps)
	}
	attr.Type = wanted
	made, err := p.CreateQP(attr)
	if err != nil {
		return nil, err
	}
	qp := made.(*QP)
	if id.ps.IsUD() {
		if err := id.toRTS(qp); err != nil {
			_ = qp.Close() // it cannot fail, because the queue pair is not attached
			return nil, err
		}
	}
	id.qp = qp
	return qp, nil
}

// toRTS takes a new queue pair to RTS. The caller holds cm.
func (id *ID) toRTS(qp *QP) error {
	const op = "create QP of id"
	qkey, err := id.qkey(op)
	if err != nil {
		return err
	}
	index := id.port.state.Load().pkeyIndexOf(id.pkey())
	if index < 0 {
		return rdma.Errorf(op, syscall.EINVAL, "the port has no P_Key %v", id.pkey())
	}
	const init = rdma.QPMaskState | rdma.QPMaskPKeyIndex | rdma.QPMaskPort | rdma.QPMaskQKey
	if err := qp.Modify(rdma.QPAttr{State: rdma.QPInit, PKeyIndex: uint16(index), Port: id.port.num, QKey: qkey},
		init); err != nil {
		return err
	}
	if err := qp.Modify(rdma.QPAttr{State: rdma.QPRTR}, rdma.QPMaskState); err != nil {
		return err
	}
	return qp.Modify(rdma.QPAttr{State: rdma.QPRTS}, rdma.QPMaskState|rdma.QPMaskSQPSN)
}

// qkey returns the Q_Key of the id's groups: fixed for UDP, that of the broadcast group for IPoIB (kernel core/cma.c,
// cma_set_qkey). The caller holds cm, and the id is bound.
func (id *ID) qkey(op string) (rdma.QKey, error) {
	if id.ps != rdma.PortSpaceIPoIB {
		return rdma.UDPQKey, nil
	}
	ipoib := &id.port.state.Load().IPoIB
	if !ipoib.Up {
		return 0, rdma.Errorf(op, syscall.EADDRNOTAVAIL, "IPoIB is not up on port %d", id.port.num)
	}
	return ipoib.Broadcast.QKey, nil
}

// pkey returns the P_Key of the IPoIB interface, or RoCE's only one.
func (id *ID) pkey() rdma.PKey {
	if id.port.isRoCE() {
		return rdma.DefaultPKey
	}
	return id.port.state.Load().IPoIB.PKey
}

// DestroyQP destroys the id's queue pair.
func (id *ID) DestroyQP() error {
	const op = "destroy QP of id"
	err := id.lock(op)
	defer id.host.cm.Unlock()
	if err != nil {
		return err
	}
	if id.qp == nil {
		return rdma.Errorf(op, syscall.EINVAL, "the id has no queue pair")
	}
	if err := id.qp.Close(); err != nil {
		return err
	}
	id.qp = nil
	return nil
}

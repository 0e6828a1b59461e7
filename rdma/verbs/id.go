//go:build rdma && linux && cgo

package verbs

import (
	"context"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// id is an identifier of the connection manager. The channel's lock guards its changing fields.
type id struct {
	ch      *eventChannel
	c       cverbs.ID
	handle  uint64
	ps      rdma.PortSpace
	context any

	dev      *device // opened by librdmacm, nil before it is needed; held
	qp       *qp
	members  []*membership // the latest first
	expected bool          // an event of resolving is pending
	removed  bool          // the device was removed

	reported, acked int     // numbers of events
	destroying      pending // not nil: destroyed
}

// CreateID makes an id.
func (ch *eventChannel) CreateID(ps rdma.PortSpace, context any) (rdma.ID, error) {
	const op = "create id"
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.shut {
		return nil, rdma.ClosedError(op, "event channel")
	}
	ch.last++
	o := &id{ch: ch, handle: ch.last, ps: ps, context: context}
	var errno syscall.Errno
	if o.c, errno = ch.c.CreateID(o.handle, uint16(ps)); errno != 0 {
		return nil, rdma.Errorf(op, errno, "port space %v", ps)
	}
	ch.ids[o.handle] = o
	return o, nil
}

func (o *id) PortSpace() rdma.PortSpace { return o.ps }
func (o *id) Context() any              { return o.context }

// lock locks the channel for a call on the id, and returns an error if the id must not be used. The caller unlocks in
// any case.
func (o *id) lock(op string) error {
	o.ch.mu.Lock()
	if o.destroying != nil {
		return rdma.ClosedError(op, "id")
	}
	return nil
}

// device returns the device to which the id is bound. The caller holds the lock.
func (o *id) device(op string) (*device, error) {
	if o.dev != nil {
		return o.dev, nil
	}
	ctx := o.c.Info().Context
	if ctx.IsNil() {
		return nil, rdma.Errorf(op, syscall.EINVAL, "the id is bound to no device")
	}
	d, err := o.ch.host.cmDevice(ctx)
	if err != nil {
		return nil, err
	}
	if o.removed {
		d.removed.Store(true)
	}
	o.dev = d
	return d, nil
}

// Bind binds the id to an address.
func (o *id) Bind(a rdma.Addr) error {
	const op = "bind address"
	err := o.lock(op)
	defer o.ch.mu.Unlock()
	if err != nil {
		return err
	}
	switch errno := o.c.Bind(cAddr(a)); errno {
	case 0:
		return nil
	case syscall.ENODEV, syscall.EADDRNOTAVAIL: // the address belongs to another interface, or to none
		return rdma.Errorf(op, errno, "no RDMA device has the address %v (rdma link; ip addr)", a)
	default:
		return rdma.Errorf(op, errno, "%v", a)
	}
}

// ResolveAddr begins to find the device with a route to dst.
func (o *id) ResolveAddr(src, dst rdma.Addr, timeout time.Duration) error {
	const op = "resolve address"
	err := o.lock(op)
	defer o.ch.mu.Unlock()
	if err != nil {
		return err
	}
	if errno := o.c.ResolveAddr(cAddr(src), cAddr(dst), milliseconds(timeout)); errno != 0 {
		return rdma.Errorf(op, errno, "%v from %v", dst, src)
	}
	o.ch.expect(&o.expected)
	return nil
}

// ResolveRoute begins to find the route.
func (o *id) ResolveRoute(timeout time.Duration) error {
	const op = "resolve route"
	err := o.lock(op)
	defer o.ch.mu.Unlock()
	if err != nil {
		return err
	}
	if errno := o.c.ResolveRoute(milliseconds(timeout)); errno != 0 {
		return check(op, errno)
	}
	o.ch.expect(&o.expected)
	return nil
}

// milliseconds returns a timeout in milliseconds, at least 1.
func milliseconds(d time.Duration) int { return int(min(max(d.Milliseconds(), 1), 1<<30)) }

// Device returns the device to which the id is bound.
func (o *id) Device() (rdma.Device, error) {
	const op = "device of id"
	err := o.lock(op)
	defer o.ch.mu.Unlock()
	if err != nil {
		return nil, err
	}
	d, err := o.device(op)
	if err != nil {
		return nil, err // not d: a nil *device is not a nil rdma.Device
	}
	return d, nil
}

// Port returns the port to which the id is bound.
func (o *id) Port() uint8 {
	if o.lock("") != nil {
		o.ch.mu.Unlock()
		return 0
	}
	defer o.ch.mu.Unlock()
	if info := o.c.Info(); !info.Context.IsNil() {
		return info.Port
	}
	return 0
}

// LocalAddr returns the address to which the id is bound.
func (o *id) LocalAddr() rdma.Addr {
	if o.lock("") != nil {
		o.ch.mu.Unlock()
		return rdma.Addr{}
	}
	defer o.ch.mu.Unlock()
	return goAddr(o.c.Info().Local)
}

// Local returns the port and GID from which the id sends.
func (o *id) Local() (rdma.Local, error) {
	const op = "local side of id"
	err := o.lock(op)
	defer o.ch.mu.Unlock()
	if err != nil {
		return rdma.Local{}, err
	}
	d, err := o.device(op)
	if err != nil {
		return rdma.Local{}, err
	}
	info := o.c.Info()
	l := rdma.Local{Port: info.Port, LinkLayer: d.ports[info.Port].layer, SGIDIndex: -1}
	want := rdma.GID(info.SGID)
	if l.LinkLayer == rdma.LinkLayerEthernet {
		want = rdma.GIDFromIP(goAddr(info.Local).IP)
	}
	gids, err := d.GIDs(info.Port)
	if err != nil {
		return rdma.Local{}, err
	}
	for _, e := range gids {
		if e.GID == want && (l.SGIDIndex < 0 || e.Type == rdma.GIDTypeRoCEv2) {
			l.SGIDIndex = e.Index
		}
	}
	if l.SGIDIndex < 0 {
		return rdma.Local{}, rdma.Errorf(op, syscall.ENODATA, "port %d of %s no longer has the GID %v", info.Port, d.name, want)
	}
	return l, nil
}

// QP returns the queue pair of CreateQP.
func (o *id) QP() rdma.QP {
	o.ch.mu.Lock()
	defer o.ch.mu.Unlock()
	if o.qp == nil {
		return nil
	}
	return o.qp
}

// CreateQP makes the id's queue pair; librdmacm takes a UD one to RTS (cma.c, ucma_init_ud_qp).
func (o *id) CreateQP(domain rdma.PD, attr rdma.QPInitAttr) (rdma.QP, error) {
	const op = "create QP of id"
	err := o.lock(op)
	defer o.ch.mu.Unlock()
	if err != nil {
		return nil, err
	}
	d, err := o.device(op)
	if err != nil {
		return nil, err
	}
	p, ok := domain.(*pd)
	switch {
	case !ok || p == nil || p.dev.ctx != d.ctx:
		return nil, rdma.Errorf(op, syscall.EINVAL, "the PD is not one of the id's device: use that of ID.Device")
	case o.qp != nil:
		return nil, rdma.Errorf(op, syscall.EINVAL, "the id already has a queue pair")
	}
	wanted := rdma.QPTypeRC
	if o.ps.IsUD() {
		wanted = rdma.QPTypeUD
	}
	if attr.Type != 0 && attr.Type != wanted {
		return nil, rdma.Errorf(op, syscall.EINVAL, "port space %v has queue pairs of another type", o.ps)
	}
	attr.Type = wanted
	q, init, err := p.prepare(op, &attr)
	if err != nil {
		return nil, err
	}
	c, got, errno := o.c.CreateQP(p.c, init)
	if errno == 0 && q.finish(c, got) != nil {
		c.Destroy()
		o.c.ForgetQP()
		errno = syscall.ENOMEM
	}
	if errno != 0 {
		q.discard()
		return nil, rdma.Errorf(op, errno, "capabilities %+v, flags %d", attr.Cap, attr.Flags)
	}
	q.owner.Store(o)
	o.qp = q
	if a, err := q.Query(); err == nil {
		q.storeAttr(a, rdma.QPMaskState|rdma.QPMaskPort|rdma.QPMaskQKey)
	}
	return q, nil
}

// DestroyQP destroys the id's queue pair.
func (o *id) DestroyQP() error {
	const op = "destroy QP of id"
	err := o.lock(op)
	defer o.ch.mu.Unlock()
	if err != nil {
		return err
	}
	if o.qp == nil {
		return rdma.Errorf(op, syscall.EINVAL, "the id has no queue pair")
	}
	return o.qp.close(op)
}

// BeginDestroy destroys the id. The Pending is done when its events are acknowledged.
func (o *id) BeginDestroy() (rdma.Pending, error) {
	const op = "destroy id"
	err := o.lock(op)
	defer o.ch.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if o.removed && o.dev == nil {
		_, _ = o.device(op) // its context is closed with the last id
	}
	var errno syscall.Errno
	if o.dev != nil {
		errno = o.ch.host.destroyID(o)
	} else {
		errno = o.c.Destroy()
	}
	if errno != 0 {
		return nil, check(op, errno)
	}
	ch := o.ch
	delete(ch.ids, o.handle)
	ch.arrived(&o.expected)
	for _, m := range o.members {
		m.forget()
	}
	o.members = nil
	if o.qp != nil {
		o.qp.owner.Store(nil)
		o.qp = nil
	}
	o.dev = nil
	o.destroying = make(pending)
	o.settle()
	return o.destroying, nil
}

// settle completes the destruction when all events are acknowledged. The caller holds the lock.
func (o *id) settle() {
	if o.destroying != nil && !o.destroying.Done() && o.acked == o.reported {
		close(o.destroying)
	}
}

// Destroy destroys the id and waits for the acknowledgement of its events.
func (o *id) Destroy(ctx context.Context) error {
	p, err := o.BeginDestroy()
	if err != nil {
		return err
	}
	return p.Wait(ctx)
}

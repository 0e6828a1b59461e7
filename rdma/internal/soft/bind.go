package soft

import (
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// Bind binds the id to an address (kernel core/cma.c, rdma_bind_addr_dst).
func (id *ID) Bind(a rdma.Addr) error {
	const op = "bind"
	err := id.lock(op)
	defer id.host.cm.Unlock()
	if err != nil {
		return err
	}
	if a.Size() == 0 {
		return rdma.Errorf(op, syscall.EINVAL, "invalid address %v", a)
	}
	return id.bind(op, a)
}

// bind is Bind. The caller holds cm.
func (id *ID) bind(op string, a rdma.Addr) error {
	if id.state != cmIdle {
		return rdma.Errorf(op, syscall.EINVAL, "id is %v", id.state)
	}
	var p *port
	index := 0
	if !a.IsAny() || id.host.cfg.Loopback && !a.IsZeroNet() {
		if p = id.host.portOf(a); p == nil {
			return rdma.Errorf(op, syscall.ENODEV, "no RDMA device has address %v", a)
		}
		if id.ps == rdma.PortSpaceIPoIB && p.isRoCE() {
			return rdma.Errorf(op, syscall.EINVAL, "there is no IPoIB on RoCE")
		}
		if index = p.sgidIndexFor(a); index < 0 {
			return rdma.Errorf(op, syscall.ENODEV, "the port has no GID for address %v", a)
		}
	}
	if a.Port != 0 && id.host.portInUse(id, a) {
		return rdma.Errorf(op, syscall.EADDRINUSE, "%v", a)
	}
	id.state, id.local, id.port, id.sgidIndex = cmAddrBound, a, p, index
	return nil
}

// sgidIndexFor returns the index of the GID for a bound address: on RoCE that of the address itself, on InfiniBand the
// port's first.
func (p *port) sgidIndexFor(a rdma.Addr) int {
	s := p.state.Load()
	switch {
	case a.Family == rdma.FamilyIB:
		return max(s.gidIndexOf(a.GID, rdma.GIDTypeIB), s.gidIndexOf(a.GID, s.DefaultType))
	case p.isRoCE():
		return s.gidIndexOf(rdma.GIDFromIP(a.IP), s.DefaultType)
	case len(s.GIDs) > 0:
		return s.GIDs[0].Index
	}
	return -1
}

// portInUse reports whether another id of the port space uses the port number with the same or the wildcard address.
func (h *Host) portInUse(id *ID, a rdma.Addr) bool {
	for _, other := range h.ids {
		if other != id && other.ps == id.ps && other.local.Port == a.Port &&
			(other.local.Group() == a.Group() || other.local.IsWildcard() || a.IsWildcard()) {
			return true
		}
	}
	return false
}

// ResolveAddr begins to resolve an address (kernel core/cma.c, rdma_resolve_addr).
func (id *ID) ResolveAddr(src, dst rdma.Addr, timeout time.Duration) error {
	const op = "resolve address"
	err := id.lock(op)
	defer id.host.cm.Unlock()
	switch {
	case err != nil:
		return err
	case dst.Size() == 0 || src != (rdma.Addr{}) && src.Size() == 0:
		return rdma.Errorf(op, syscall.EINVAL, "invalid addresses %v to %v", src, dst)
	case id.state != cmIdle && id.state != cmAddrBound:
		return rdma.Errorf(op, syscall.EINVAL, "id is %v", id.state)
	case src != (rdma.Addr{}) && src.Family != dst.Family:
		return rdma.Errorf(op, syscall.EINVAL, "%v and %v are of different families", src, dst)
	}
	if id.state == cmIdle {
		if src == (rdma.Addr{}) {
			id.state = cmAddrBound // to the wildcard address
		} else if err := id.bind(op, src); err != nil {
			return err
		}
	}
	id.state = cmAddrQuery
	id.later(func() { id.resolved(dst) })
	return nil
}

// later schedules f, with cm held, unless the id is then destroyed or has lost its device.
func (id *ID) later(f func()) {
	run := func() {
		id.host.cm.Lock()
		defer id.host.cm.Unlock()
		if id.destroying == nil && id.state != cmDeviceRemoval {
			f()
		}
	}
	switch {
	case id.port != nil:
		id.port.dev.backend.After(0, run)
	case len(id.host.devices) > 0:
		id.host.devices[0].backend.After(0, run)
	default:
		// Without a device there is no backend to wait for. The state is set first, so that the caller sees the same order.
		f()
	}
}

// resolved completes ResolveAddr. The caller holds cm.
func (id *ID) resolved(dst rdma.Addr) {
	fail := func(errno syscall.Errno) {
		id.state = cmAddrBound
		id.ch.box.push(&cmEvent{id: id, typ: rdma.EventAddrError, status: -int(errno)})
	}
	if id.port == nil {
		src, ok := id.host.sourceFor(dst.IP)
		if !ok {
			fail(syscall.ENETUNREACH)
			return
		}
		id.state = cmIdle
		if err := id.bind("resolve address", rdma.IPAddr(src)); err != nil {
			fail(syscall.ENODEV)
			return
		}
	}
	id.state = cmAddrResolved
	id.ch.box.push(&cmEvent{id: id, typ: rdma.EventAddrResolved})
}

// ResolveRoute begins to resolve the route. Groups do not need it.
func (id *ID) ResolveRoute(timeout time.Duration) error {
	const op = "resolve route"
	err := id.lock(op)
	defer id.host.cm.Unlock()
	if err != nil {
		return err
	}
	if id.state != cmAddrResolved {
		return rdma.Errorf(op, syscall.EINVAL, "id is %v", id.state)
	}
	id.state = cmRouteQuery
	id.later(func() {
		id.state = cmRouteResolved
		id.ch.box.push(&cmEvent{id: id, typ: rdma.EventRouteResolved})
	})
	return nil
}

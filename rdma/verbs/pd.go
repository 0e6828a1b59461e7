//go:build rdma && linux && cgo

package verbs

import (
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// pd is a protection domain.
type pd struct {
	dev  *device
	c    cverbs.PD
	life // its users are memory regions, queue pairs and address handles
}

// AllocPD makes a protection domain.
func (d *device) AllocPD() (rdma.PD, error) {
	const op = "alloc PD"
	if err := d.hold(op); err != nil {
		return nil, err
	}
	c, errno := d.ctx.AllocPD()
	if errno != 0 {
		d.release()
		return nil, check(op, errno)
	}
	return &pd{dev: d, c: c, life: life{kind: "protection domain"}}, nil
}

func (p *pd) Device() rdma.Device { return p.dev }

// Close frees the domain. Users are counted in Go because neither the kernel nor rdma-core counts all objects: some
// drivers make address handles without the kernel.
func (p *pd) Close() error {
	const op = "dealloc PD"
	if err := p.end(op); err != nil {
		return err
	}
	if errno := p.c.Dealloc(); errno != 0 && !p.dev.gone(errno) {
		p.reopen()
		return check(op, errno)
	}
	p.dev.release()
	return nil
}

// gone reports whether destroying failed because the device was removed: then the kernel has destroyed everything.
func (d *device) gone(errno syscall.Errno) bool {
	return errno == syscall.EIO || errno == syscall.ENODEV || d.removed.Load() && errno != syscall.EBUSY
}

// mr is registered memory.
type mr struct {
	pd     *pd
	c      cverbs.MR
	lkey   uint32
	mem    []byte
	closed atomic.Bool
}

// RegisterMemory registers memory outside the Go heap.
func (p *pd) RegisterMemory(mem []byte, access rdma.Access) (rdma.MR, error) {
	const op = "register memory"
	switch {
	case len(mem) == 0:
		return nil, rdma.Errorf(op, syscall.EINVAL, "no memory")
	case access&(rdma.AccessRemoteWrite|rdma.AccessRemoteRead) != 0 && access&rdma.AccessLocalWrite == 0:
		return nil, rdma.Errorf(op, syscall.EINVAL, "remote write access requires local write access")
	}
	if err := p.hold(op); err != nil {
		return nil, err
	}
	c, errno := p.c.RegMR(address(mem), len(mem), uint32(access))
	if errno != 0 {
		p.release()
		return nil, memlock(op, errno, len(mem))
	}
	return &mr{pd: p, c: c, lkey: c.LKey(), mem: mem}, nil
}

// address returns the address of mem as a number, because Go pointers must not be passed to C.
func address(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }

func (m *mr) LKey() uint32  { return m.lkey }
func (m *mr) Bytes() []byte { return m.mem }

// Close ends the registration.
func (m *mr) Close() error {
	const op = "deregister memory"
	if m.closed.Swap(true) {
		return rdma.ClosedError(op, "memory region")
	}
	if errno := m.c.Dereg(); errno != 0 && !m.pd.dev.gone(errno) {
		m.closed.Store(false)
		return check(op, errno)
	}
	m.pd.release()
	return nil
}

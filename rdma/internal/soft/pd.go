package soft

import (
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/fanfaremq/fanfare/rdma"
)

// PD is a protection domain.
type PD struct {
	on      *handle
	objects atomic.Int64
	closed  atomic.Bool

	// mem guards mrs. The data path holds it for reading while it uses registered memory, so that Close of a region, after
	// which the memory may be unmapped, waits for the data path.
	mem sync.RWMutex
	mrs []*MR // index: the upper bits of the L_Key; nil if closed
}

func (h *handle) AllocPD() (rdma.PD, error) {
	const op = "allocate PD"
	if err := h.usable(op); err != nil {
		return nil, err
	}
	if !acquire(&h.dev.pds, h.dev.cfg.Attr.MaxPD) {
		return nil, rdma.Errorf(op, syscall.ENOMEM, "the device's limit of %d PDs is reached", h.dev.cfg.Attr.MaxPD)
	}
	h.objects.Add(1)
	return &PD{on: h}, nil
}

func (pd *PD) usable(op string) error {
	if pd.closed.Load() {
		return rdma.ClosedError(op, "PD")
	}
	return pd.on.usable(op)
}

// Device returns the device of the domain.
func (pd *PD) Device() rdma.Device { return pd.on }

// Close frees the domain.
func (pd *PD) Close() error {
	const op = "free PD"
	if n := pd.objects.Load(); n > 0 {
		return rdma.Errorf(op, syscall.EBUSY, "it has %d open objects", n)
	}
	if pd.closed.Swap(true) {
		return rdma.ClosedError(op, "PD")
	}
	pd.on.dev.pds.Add(-1)
	pd.on.objects.Add(-1)
	return nil
}

// MR is registered memory.
type MR struct {
	pd     *PD
	mem    []byte
	lkey   uint32
	access rdma.Access
	closed atomic.Bool
}

// lkeyLowBits is the number of lower bits of an L_Key. They differ for each region with the same upper bits, as in
// hardware.
const lkeyLowBits = 8

// RegisterMemory registers memory.
func (pd *PD) RegisterMemory(mem []byte, access rdma.Access) (rdma.MR, error) {
	const op = "register memory"
	if err := pd.usable(op); err != nil {
		return nil, err
	}
	if len(mem) == 0 {
		return nil, rdma.Errorf(op, syscall.EINVAL, "no memory")
	}
	if access&rdma.AccessRemoteWrite != 0 && access&rdma.AccessLocalWrite == 0 {
		return nil, rdma.Errorf(op, syscall.EINVAL, "remote write access requires local write access")
	}
	limit := pd.on.dev.cfg.Attr.MaxMR
	if !acquire(&pd.on.dev.mrs, limit) {
		return nil, rdma.Errorf(op, syscall.ENOMEM, "the device's limit of %d regions is reached", limit)
	}
	pd.mem.Lock()
	defer pd.mem.Unlock()
	mr := &MR{pd: pd, mem: mem, access: access}
	i := slices.Index(pd.mrs, nil)
	if i < 0 {
		i = len(pd.mrs)
		pd.mrs = append(pd.mrs, nil)
	}
	pd.mrs[i] = mr
	mr.lkey = uint32(i+1)<<lkeyLowBits | lkeySalt.Add(1)&(1<<lkeyLowBits-1)
	pd.objects.Add(1)
	return mr, nil
}

// lkeySalt makes it unlikely that a stale L_Key is valid.
var lkeySalt atomic.Uint32

// LKey returns the key of the region.
func (mr *MR) LKey() uint32 { return mr.lkey }

// Bytes returns the memory.
func (mr *MR) Bytes() []byte { return mr.mem }

// Close ends the registration.
func (mr *MR) Close() error {
	if mr.closed.Swap(true) {
		return rdma.ClosedError("deregister memory", "region")
	}
	mr.pd.mem.Lock()
	mr.pd.mrs[mr.lkey>>lkeyLowBits-1] = nil
	mr.pd.mem.Unlock()
	mr.pd.on.dev.mrs.Add(-1)
	mr.pd.objects.Add(-1)
	return nil
}

// covers reports whether all elements are in registered memory with the rights in access. The caller holds mem for
// reading.
func (pd *PD) covers(sg []rdma.SGE, access rdma.Access) bool {
	for i := range sg {
		e := &sg[i]
		if len(e.Buf) == 0 {
			continue
		}
		n := e.LKey >> lkeyLowBits
		if n < 1 || int(n) > len(pd.mrs) {
			return false
		}
		mr := pd.mrs[n-1]
		if mr == nil || mr.lkey != e.LKey || mr.access&access != access {
			return false
		}
		off := uintptr(unsafe.Pointer(unsafe.SliceData(e.Buf))) - uintptr(unsafe.Pointer(unsafe.SliceData(mr.mem)))
		if off > uintptr(len(mr.mem)) || uintptr(len(e.Buf)) > uintptr(len(mr.mem))-off {
			return false
		}
	}
	return true
}

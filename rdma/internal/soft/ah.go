package soft

import (
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// AH is an address handle.
type AH struct {
	pd        *PD
	attr      rdma.AHAttr
	sgid      rdma.GID
	multicast bool
	closed    atomic.Bool
}

// CreateAH makes an address handle.
func (pd *PD) CreateAH(attr rdma.AHAttr) (rdma.AH, error) {
	const op = "create AH"
	if err := pd.usable(op); err != nil {
		return nil, err
	}
	dev := pd.on.dev
	p := dev.port(attr.Port)
	if p == nil {
		return nil, rdma.Errorf(op, syscall.EINVAL, "no port %d", attr.Port)
	}
	ah := &AH{pd: pd, attr: attr}
	s := p.state.Load()
	if p.isRoCE() && !attr.IsGlobal {
		return nil, rdma.Errorf(op, syscall.EINVAL, "an address handle on RoCE must be global")
	}
	if attr.IsGlobal {
		e, ok := s.gid(attr.GRH.SGIDIndex)
		if !ok {
			return nil, rdma.Errorf(op, syscall.EINVAL, "no GID %d on port %d", attr.GRH.SGIDIndex, attr.Port)
		}
		// rxe derives the network type only from the source and would build a header of the wrong family.
		if p.isRoCE() && e.GID.IsV4Mapped() != attr.GRH.DGID.IsV4Mapped() {
			return nil, rdma.Errorf(op, syscall.EINVAL, "source GID %v and destination %v are of different families", e.GID, attr.GRH.DGID)
		}
		ah.sgid = e.GID
		ah.multicast = attr.GRH.DGID.IsMulticast()
	} else {
		ah.multicast = attr.DLID.IsMulticast()
	}
	if !acquire(&dev.ahs, dev.cfg.Attr.MaxAH) {
		return nil, rdma.Errorf(op, syscall.ENOMEM, "the device's limit of %d address handles is reached", dev.cfg.Attr.MaxAH)
	}
	pd.objects.Add(1)
	return ah, nil
}

// Attr returns the attributes given at creation.
func (ah *AH) Attr() rdma.AHAttr { return ah.attr }

// Close destroys the handle.
func (ah *AH) Close() error {
	if ah.closed.Swap(true) {
		return rdma.ClosedError("destroy AH", "address handle")
	}
	ah.pd.on.dev.ahs.Add(-1)
	ah.pd.objects.Add(-1)
	return nil
}

//go:build rdma && linux && cgo

package verbs

import (
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// ah is an address handle.
type ah struct {
	pd        *pd
	c         cverbs.AH
	attr      rdma.AHAttr
	multicast bool
	closed    atomic.Bool
}

// CreateAH makes an address handle.
func (p *pd) CreateAH(attr rdma.AHAttr) (rdma.AH, error) {
	if err := p.hold("create AH"); err != nil {
		return nil, err
	}
	a, err := p.makeAH(attr)
	if err != nil {
		p.release()
		return nil, err
	}
	return a, nil
}

// makeAH makes an address handle. The caller has called hold on the domain.
func (p *pd) makeAH(attr rdma.AHAttr) (rdma.AH, error) {
	const op = "create AH"
	if attr.Port < 1 || int(attr.Port) >= len(p.dev.ports) {
		return nil, rdma.Errorf(op, syscall.EINVAL, "%s has no port %d", p.dev.name, attr.Port)
	}
	if attr.GRH.SGIDIndex < 0 || attr.GRH.SGIDIndex > 255 {
		return nil, rdma.Errorf(op, syscall.EINVAL, "GID index %d does not fit into 8 bits", attr.GRH.SGIDIndex)
	}
	if p.dev.ports[attr.Port].layer == rdma.LinkLayerEthernet {
		if !attr.IsGlobal {
			return nil, rdma.Errorf(op, syscall.EINVAL, "an address handle on RoCE must be global")
		}
		// rxe derives the network type only from the source GID, and builds a wrong header if the destination has another
		// family (rxe_av.c).
		e, errno := p.dev.ctx.GID(attr.Port, attr.GRH.SGIDIndex)
		if errno != 0 {
			return nil, rdma.Errorf(op, syscall.EINVAL, "port %d has no GID at index %d", attr.Port, attr.GRH.SGIDIndex)
		}
		if sgid := rdma.GID(e.GID); sgid.IsV4Mapped() != attr.GRH.DGID.IsV4Mapped() {
			return nil, rdma.Errorf(op, syscall.EINVAL, "source GID %v and destination %v are of different address families", sgid, attr.GRH.DGID)
		}
	}
	c, errno := p.c.CreateAH(cverbs.AHAttr{
		DGID: attr.GRH.DGID, FlowLabel: attr.GRH.FlowLabel, SGIDIndex: uint8(attr.GRH.SGIDIndex), HopLimit: attr.GRH.HopLimit,
		TrafficClass: attr.GRH.TrafficClass, DLID: uint16(attr.DLID), SL: attr.SL, SrcPathBits: attr.SrcPathBits,
		StaticRate: attr.StaticRate, IsGlobal: attr.IsGlobal, Port: attr.Port,
	})
	if errno != 0 {
		return nil, rdma.Errorf(op, errno, "to %v", attr.GRH.DGID)
	}
	multicast := attr.DLID.IsMulticast()
	if p.dev.ports[attr.Port].layer == rdma.LinkLayerEthernet {
		multicast = attr.GRH.DGID.IsMulticast()
	}
	return &ah{pd: p, c: c, attr: attr, multicast: multicast}, nil
}

func goAHAttr(a cverbs.AHAttr) rdma.AHAttr {
	return rdma.AHAttr{
		GRH: rdma.GRH{DGID: a.DGID, FlowLabel: a.FlowLabel, SGIDIndex: int(a.SGIDIndex), HopLimit: a.HopLimit,
			TrafficClass: a.TrafficClass},
		DLID: rdma.LID(a.DLID), SL: a.SL, SrcPathBits: a.SrcPathBits,
		StaticRate: a.StaticRate, IsGlobal: a.IsGlobal, Port: a.Port,
	}
}

func (a *ah) Attr() rdma.AHAttr { return a.attr }

// Close destroys the handle.
func (a *ah) Close() error {
	const op = "destroy AH"
	if a.closed.Swap(true) {
		return rdma.ClosedError(op, "address handle")
	}
	if errno := a.c.Destroy(); errno != 0 && !a.pd.dev.gone(errno) {
		a.closed.Store(false)
		return check(op, errno)
	}
	a.pd.release()
	return nil
}

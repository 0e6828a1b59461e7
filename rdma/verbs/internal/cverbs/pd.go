//go:build rdma && linux && cgo

package cverbs

// #include "cverbs.h"
import "C"

import "syscall"

// PD is struct ibv_pd.
type PD struct{ p *C.struct_ibv_pd }

// AllocPD makes a protection domain.
func (c Context) AllocPD() (PD, syscall.Errno) {
	r := C.cv_alloc_pd(c.p)
	return PD{(*C.struct_ibv_pd)(r.ptr)}, syscall.Errno(r.err)
}

// Dealloc frees the domain.
func (p PD) Dealloc() syscall.Errno { return syscall.Errno(C.cv_dealloc_pd(p.p)) }

// MR is struct ibv_mr.
type MR struct{ p *C.struct_ibv_mr }

// RegMR registers length bytes at addr, which is outside the Go heap.
func (p PD) RegMR(addr uintptr, length int, access uint32) (MR, syscall.Errno) {
	r := C.cv_reg_mr(p.p, C.uint64_t(addr), C.uint64_t(length), C.int(access))
	return MR{(*C.struct_ibv_mr)(r.ptr)}, syscall.Errno(r.err)
}

// LKey returns the key of the region.
func (m MR) LKey() uint32 { return uint32(m.p.lkey) }

// Dereg ends the registration.
func (m MR) Dereg() syscall.Errno { return syscall.Errno(C.cv_dereg_mr(m.p)) }

// AH is struct ibv_ah.
type AH struct{ p *C.struct_ibv_ah }

// AHAttr is struct ibv_ah_attr.
type AHAttr struct {
	DGID                              [16]byte
	FlowLabel                         uint32
	SGIDIndex, HopLimit, TrafficClass uint8
	DLID                              uint16
	SL, SrcPathBits, StaticRate       uint8
	IsGlobal                          bool
	Port                              uint8
}

// CreateAH makes an address handle.
func (p PD) CreateAH(a AHAttr) (AH, syscall.Errno) {
	c := C.struct_cv_ah_attr{
		dgid: a.DGID, flow_label: C.uint32_t(a.FlowLabel),
		sgid_index: C.uint8_t(a.SGIDIndex), hop_limit: C.uint8_t(a.HopLimit),
		traffic_class: C.uint8_t(a.TrafficClass), dlid: C.uint16_t(a.DLID),
		sl: C.uint8_t(a.SL), src_path_bits: C.uint8_t(a.SrcPathBits),
		static_rate: C.uint8_t(a.StaticRate), port: C.uint8_t(a.Port),
	}
	if a.IsGlobal {
		c.is_global = 1
	}
	r := C.cv_create_ah(p.p, c)
	return AH{(*C.struct_ibv_ah)(r.ptr)}, syscall.Errno(r.err)
}

// Destroy destroys the handle.
func (a AH) Destroy() syscall.Errno { return syscall.Errno(C.cv_destroy_ah(a.p)) }

func goAHAttr(a *C.struct_cv_ah_attr) AHAttr {
	return AHAttr{
		DGID: a.dgid, FlowLabel: uint32(a.flow_label), SGIDIndex: uint8(a.sgid_index), HopLimit: uint8(a.hop_limit),
		TrafficClass: uint8(a.traffic_class), DLID: uint16(a.dlid), SL: uint8(a.sl), SrcPathBits: uint8(a.src_path_bits),
		StaticRate: uint8(a.static_rate), IsGlobal: a.is_global != 0, Port: uint8(a.port),
	}
}

//go:build rdma && linux && cgo

package cverbs

// #include "cverbs.h"
import "C"

import "syscall"

// QP is struct ibv_qp.
type QP struct{ p *C.struct_ibv_qp }

// QPCap is struct ibv_qp_cap.
type QPCap struct {
	SendWR, RecvWR, SendSGE, RecvSGE, Inline uint32
}

// QPInit has the used fields of struct ibv_qp_init_attr_ex. Context is returned in AsyncEvent.
type QPInit struct {
	Context        uint64
	SendCQ, RecvCQ CQ
	Cap            QPCap
	Type           int
	SignalAll      bool
	Flags          uint32
}

func (i QPInit) c() C.struct_cv_qp_init {
	r := C.struct_cv_qp_init{
		context: C.uint64_t(i.Context), send_cq: i.SendCQ.p,
		recv_cq: i.RecvCQ.p, _type: C.int(i.Type), flags: C.uint32_t(i.Flags),
		cap: C.struct_ibv_qp_cap{
			max_send_wr: C.uint32_t(i.Cap.SendWR), max_recv_wr: C.uint32_t(i.Cap.RecvWR),
			max_send_sge: C.uint32_t(i.Cap.SendSGE),
			max_recv_sge: C.uint32_t(i.Cap.RecvSGE), max_inline_data: C.uint32_t(i.Cap.Inline),
		},
	}
	if i.SignalAll {
		r.sig_all = 1
	}
	return r
}

func goQP(r C.struct_cv_qp) (QP, QPCap, syscall.Errno) {
	c := &r.cap
	return QP{r.qp}, QPCap{
		SendWR: uint32(c.max_send_wr), RecvWR: uint32(c.max_recv_wr), SendSGE: uint32(c.max_send_sge),
		RecvSGE: uint32(c.max_recv_sge), Inline: uint32(c.max_inline_data),
	}, syscall.Errno(r.err)
}

// CreateQP makes a queue pair and returns its actual capacity.
func (p PD) CreateQP(init QPInit) (QP, QPCap, syscall.Errno) {
	return goQP(C.cv_create_qp(p.p, init.c()))
}

// QPN returns the queue pair's number.
func (q QP) QPN() uint32 { return uint32(q.p.qp_num) }

// QPAttr has the used fields of struct ibv_qp_attr.
type QPAttr struct {
	State, CurState uint32
	PKeyIndex       uint16
	Port            uint8
	QKey, SQPSN     uint32
}

// Modify changes the attributes in mask (enum ibv_qp_attr_mask).
func (q QP) Modify(a QPAttr, mask uint32) syscall.Errno {
	return syscall.Errno(C.cv_modify_qp(q.p, C.struct_cv_qp_attr{
		state: C.uint32_t(a.State), cur_state: C.uint32_t(a.CurState), pkey_index: C.uint16_t(a.PKeyIndex),
		port: C.uint8_t(a.Port), qkey: C.uint32_t(a.QKey), sq_psn: C.uint32_t(a.SQPSN),
	}, C.int(mask)))
}

// Query returns the attributes.
func (q QP) Query() (QPAttr, syscall.Errno) {
	r := C.cv_query_qp(q.p)
	return QPAttr{
		State: uint32(r.state), CurState: uint32(r.cur_state), PKeyIndex: uint16(r.pkey_index),
		Port: uint8(r.port), QKey: uint32(r.qkey), SQPSN: uint32(r.sq_psn),
	}, syscall.Errno(r.err)
}

// Attach attaches the queue pair to a group.
func (q QP) Attach(gid [16]byte, lid uint16) syscall.Errno {
	return syscall.Errno(C.cv_attach(q.p, gid, C.uint16_t(lid)))
}

// Detach detaches the queue pair from a group.
func (q QP) Detach(gid [16]byte, lid uint16) syscall.Errno {
	return syscall.Errno(C.cv_detach(q.p, gid, C.uint16_t(lid)))
}

// Destroy destroys the queue pair. Error EBUSY: it is attached.
func (q QP) Destroy() syscall.Errno { return syscall.Errno(C.cv_destroy_qp(q.p)) }

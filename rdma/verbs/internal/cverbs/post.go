//go:build rdma && linux && cgo

package cverbs

// #include <stdlib.h>
// #include "cverbs.h"
import "C"

import (
	"syscall"
	"unsafe"
)

// SGE is struct ibv_sge.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// SendWR is struct ibv_send_wr of UD. Only C uses next and sgList.
type SendWR struct {
	WRID   uint64
	next   uintptr
	sgList *SGE
	NumSGE int32
	Opcode uint32
	Flags  uint32
	Imm    [4]byte // network byte order
	ah     *C.struct_ibv_ah
	QPN    uint32
	QKey   uint32
	_      [72]byte
}

// SetAH sets the address handle.
func (w *SendWR) SetAH(a AH) { w.ah = a.p }

// RecvWR is struct ibv_recv_wr.
type RecvWR struct {
	WRID   uint64
	next   uintptr
	sgList *SGE
	NumSGE int32
	_      int32
}

// Sends are work requests in C memory, with MaxSGE elements each.
type Sends struct {
	WRs    []SendWR
	MaxSGE int
}

// Recvs are work requests in C memory, with MaxSGE elements each.
type Recvs struct {
	WRs    []RecvWR
	MaxSGE int
}

// NewSends makes n work requests; ok is false if there is not enough memory.
func NewSends(n, maxSGE int) (s Sends, ok bool) {
	p := C.cv_send_wrs(C.int(n), C.int(maxSGE))
	if p == nil {
		return s, false
	}
	return Sends{unsafe.Slice((*SendWR)(unsafe.Pointer(p)), n), maxSGE}, true
}

// NewRecvs makes n work requests; ok is false if there is not enough memory.
func NewRecvs(n, maxSGE int) (r Recvs, ok bool) {
	p := C.cv_recv_wrs(C.int(n), C.int(maxSGE))
	if p == nil {
		return r, false
	}
	return Recvs{unsafe.Slice((*RecvWR)(unsafe.Pointer(p)), n), maxSGE}, true
}

// Free frees the memory.
func (s Sends) Free() { C.free(unsafe.Pointer(unsafe.SliceData(s.WRs))) }

// Free frees the memory.
func (r Recvs) Free() { C.free(unsafe.Pointer(unsafe.SliceData(r.WRs))) }

// SG returns the elements of request i.
func (s Sends) SG(i int) []SGE { return unsafe.Slice(s.WRs[i].sgList, s.MaxSGE) }

// SG returns the elements of request i.
func (r Recvs) SG(i int) []SGE { return unsafe.Slice(r.WRs[i].sgList, r.MaxSGE) }

// PostSend posts the first n requests of s, n > 0, and returns the number of posted ones and the error of the next.
func (q QP) PostSend(s Sends, n int) (int, syscall.Errno) {
	r := C.cv_post_send(q.p, (*C.struct_ibv_send_wr)(unsafe.Pointer(unsafe.SliceData(s.WRs))), C.int(n))
	return int(r.count), syscall.Errno(r.err)
}

// PostRecv posts the first n requests of r, n > 0, and returns the number of posted ones and the error of the next.
func (q QP) PostRecv(w Recvs, n int) (int, syscall.Errno) {
	r := C.cv_post_recv(q.p, (*C.struct_ibv_recv_wr)(unsafe.Pointer(unsafe.SliceData(w.WRs))), C.int(n))
	return int(r.count), syscall.Errno(r.err)
}

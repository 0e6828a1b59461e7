//go:build rdma && linux && cgo

package cverbs

// #include <stdlib.h>
// #include "cverbs.h"
import "C"

import (
	"syscall"
	"unsafe"
)

// WC is struct ibv_wc.
type WC struct {
	WRID      uint64
	Status    uint32
	Opcode    uint32
	VendorErr uint32
	ByteLen   uint32
	Imm       [4]byte // network byte order
	QPN       uint32
	SrcQPN    uint32
	Flags     uint32
	PKeyIndex uint16
	SLID      uint16
	SL        uint8
	DLIDBits  uint8
	_         [2]byte
}

// CompChannel is struct ibv_comp_channel.
type CompChannel struct{ p *C.struct_ibv_comp_channel }

// NewCompChannel opens a completion channel.
func (c Context) NewCompChannel() (CompChannel, syscall.Errno) {
	r := C.cv_comp_channel(c.p)
	return CompChannel{(*C.struct_ibv_comp_channel)(r.ptr)}, syscall.Errno(r.err)
}

// FD is readable when Next can return a notification. It belongs to the channel.
func (ch CompChannel) FD() int { return int(ch.p.fd) }

// Next returns the context of the next notified queue. Error EAGAIN: there is none, and FD does not block.
func (ch CompChannel) Next() (uint64, syscall.Errno) {
	r := C.cv_next_note(ch.p)
	return uint64(r.cq), syscall.Errno(r.err)
}

// Destroy destroys the channel.
func (ch CompChannel) Destroy() syscall.Errno {
	return syscall.Errno(C.cv_destroy_comp_channel(ch.p))
}

// CQ is struct ibv_cq.
type CQ struct{ p *C.struct_ibv_cq }

// CreateCQ makes a completion queue, with a channel or the zero CompChannel.
func (c Context) CreateCQ(entries int, context uint64, ch CompChannel) (CQ, syscall.Errno) {
	r := C.cv_create_cq(c.p, C.int(entries), C.uint64_t(context), ch.p)
	return CQ{(*C.struct_ibv_cq)(r.ptr)}, syscall.Errno(r.err)
}

// Entries returns the size of the queue.
func (q CQ) Entries() int { return int(q.p.cqe) }

// Poll moves completions to batch, which must be made by NewWCs, and returns their number, negative after a failure.
func (q CQ) Poll(batch []WC) int {
	return int(C.cv_poll(q.p, (*C.struct_ibv_wc)(unsafe.Pointer(unsafe.SliceData(batch))), C.int(len(batch))))
}

// PollFor repeats Poll until there is a completion or ns nanoseconds have passed.
func (q CQ) PollFor(batch []WC, ns int64) int {
	return int(C.cv_poll_for(q.p, (*C.struct_ibv_wc)(unsafe.Pointer(unsafe.SliceData(batch))),
		C.int(len(batch)), C.int64_t(ns)))
}

// RequestNotify arms the queue.
func (q CQ) RequestNotify(solicited bool) syscall.Errno {
	only := C.int(0)
	if solicited {
		only = 1
	}
	return syscall.Errno(C.cv_req_notify(q.p, only))
}

// Destroy destroys the queue.
func (q CQ) Destroy() syscall.Errno { return syscall.Errno(C.cv_destroy_cq(q.p)) }

// NewWCs returns n completions in C memory, nil if there is not enough. FreeWCs frees them.
func NewWCs(n int) []WC {
	p := (*WC)(C.calloc(C.size_t(n), C.sizeof_struct_ibv_wc))
	if p == nil {
		return nil
	}
	return unsafe.Slice(p, n)
}

// FreeWCs frees the memory of NewWCs.
func FreeWCs(wcs []WC) { C.free(unsafe.Pointer(unsafe.SliceData(wcs))) }

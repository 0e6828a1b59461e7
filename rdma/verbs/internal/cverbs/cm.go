//go:build rdma && linux && cgo

package cverbs

// #include "cverbs.h"
import "C"

import "syscall"

// Addr is a sockaddr of the connection manager. Family 0 means NULL.
type Addr struct {
	Family      uint16
	Port        uint16
	Flow, Scope uint32
	IP          [16]byte // IPv4 in the first four bytes; the GID of AF_IB
}

func (a Addr) c() C.struct_cv_addr {
	return C.struct_cv_addr{family: C.uint16_t(a.Family), port: C.uint16_t(a.Port), flow: C.uint32_t(a.Flow),
		scope: C.uint32_t(a.Scope), ip: a.IP}
}

// EventChannel is struct rdma_event_channel.
type EventChannel struct{ p *C.struct_rdma_event_channel }

// NewEventChannel opens a channel.
func NewEventChannel() (EventChannel, syscall.Errno) {
	r := C.cv_event_channel()
	return EventChannel{(*C.struct_rdma_event_channel)(r.ptr)}, syscall.Errno(r.err)
}

// FD is readable when Next can return an event. It belongs to the channel.
func (ch EventChannel) FD() int { return int(ch.p.fd) }

// Destroy destroys the channel, which must not have ids.
func (ch EventChannel) Destroy() { C.rdma_destroy_event_channel(ch.p) }

// Event is an acknowledged event of an id.
type Event struct {
	Type, Status   int
	AttachErr      syscall.Errno // only of a MULTICAST_ERROR with status -1
	ID, Join       uint64        // contexts
	AH             AHAttr
	QPN, QKey      uint32
	PrivateDataLen uint8
}

// Next retrieves the next event. A JOIN of a full member attaches the id's queue pair. Error EAGAIN: there is none.
func (ch EventChannel) Next() (Event, syscall.Errno) {
	r := C.cv_next_event(ch.p)
	if r.err != 0 {
		return Event{}, syscall.Errno(r.err)
	}
	return Event{
		Type: int(r._type), Status: int(r.status),
		AttachErr: syscall.Errno(r.attach_err), ID: uint64(r.id), Join: uint64(r.join),
		AH: goAHAttr(&r.ah), QPN: uint32(r.qpn), QKey: uint32(r.qkey), PrivateDataLen: uint8(r.private_data_len),
	}, 0
}

// SyncDevices makes librdmacm list the devices. Then librdmacm closes a removed device when its last id is destroyed.
func SyncDevices() { C.cv_sync_devices() }

// ID is struct rdma_cm_id.
type ID struct{ p *C.struct_rdma_cm_id }

// CreateID makes an id.
func (ch EventChannel) CreateID(context uint64, ps uint16) (ID, syscall.Errno) {
	r := C.cv_create_id(ch.p, C.uint64_t(context), C.int(ps))
	return ID{(*C.struct_rdma_cm_id)(r.ptr)}, syscall.Errno(r.err)
}

// IDInfo has the device and address to which an id is bound.
type IDInfo struct {
	Context Context // nil if bound to no device
	Port    uint8
	Local   Addr
	SGID    [16]byte
}

// Info returns the id's binding.
func (id ID) Info() IDInfo {
	r := C.cv_id_info(id.p)
	return IDInfo{Context: Context{r.verbs}, Port: uint8(r.port), SGID: r.sgid, Local: Addr{
		Family: uint16(r.local.family), Port: uint16(r.local.port),
		Flow: uint32(r.local.flow), Scope: uint32(r.local.scope), IP: r.local.ip,
	}}
}

// Bind binds the id.
func (id ID) Bind(a Addr) syscall.Errno { return syscall.Errno(C.cv_bind(id.p, a.c())) }

// ResolveAddr begins resolving an address.
func (id ID) ResolveAddr(src, dst Addr, ms int) syscall.Errno {
	return syscall.Errno(C.cv_resolve_addr(id.p, src.c(), dst.c(), C.int(ms)))
}

// ResolveRoute begins resolving the route.
func (id ID) ResolveRoute(ms int) syscall.Errno {
	return syscall.Errno(C.cv_resolve_route(id.p, C.int(ms)))
}

// Join begins joining a group.
func (id ID) Join(mask, flags uint32, a Addr, context uint64) syscall.Errno {
	return syscall.Errno(C.cv_join(id.p, C.uint32_t(mask), C.uint32_t(flags), a.c(), C.uint64_t(context)))
}

// Leave leaves a group. a must equal the address of Join.
func (id ID) Leave(a Addr) syscall.Errno { return syscall.Errno(C.cv_leave(id.p, a.c())) }

// CreateQP makes the id's queue pair.
func (id ID) CreateQP(pd PD, init QPInit) (QP, QPCap, syscall.Errno) {
	return goQP(C.cv_create_id_qp(id.p, pd.p, init.c()))
}

// ForgetQP removes the id's queue pair, which was destroyed, from the id.
func (id ID) ForgetQP() { C.cv_forget_id_qp(id.p) }

// Destroy destroys the id.
func (id ID) Destroy() syscall.Errno { return syscall.Errno(C.cv_destroy_id(id.p)) }

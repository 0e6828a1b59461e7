//go:build rdma && linux && cgo

package cverbs

// #cgo pkg-config: libibverbs librdmacm
// #cgo CFLAGS: -O2 -Wall
// #include <stdlib.h>
// #include "cverbs.h"
import "C"

import (
	"syscall"
	"unsafe"
)

// Context is an opened device, struct ibv_context; comparable.
type Context struct{ p *C.struct_ibv_context }

// Devices returns the names of the devices.
func Devices() ([]string, syscall.Errno) {
	l := C.cv_devices()
	if l.err != 0 {
		return nil, syscall.Errno(l.err)
	}
	defer C.ibv_free_device_list(l.list)
	var names []string
	for _, d := range unsafe.Slice(l.list, int(l.count)) {
		names = append(names, C.GoString(C.ibv_get_device_name(d)))
	}
	return names, 0
}

// Open opens the device with the name. Error ENODEV: there is none.
func Open(name string) (Context, syscall.Errno) {
	l := C.cv_devices()
	if l.err != 0 {
		return Context{}, syscall.Errno(l.err)
	}
	defer C.ibv_free_device_list(l.list)
	for i, d := range unsafe.Slice(l.list, int(l.count)) {
		if C.GoString(C.ibv_get_device_name(d)) == name {
			r := C.cv_open(l.list, C.int(i))
			return Context{(*C.struct_ibv_context)(r.ptr)}, syscall.Errno(r.err)
		}
	}
	return Context{}, syscall.ENODEV
}

// IsNil reports whether c is the zero Context.
func (c Context) IsNil() bool { return c.p == nil }

// Name returns the name of the device.
func (c Context) Name() string { return C.GoString(C.ibv_get_device_name(c.p.device)) }

// Close closes the device.
func (c Context) Close() { C.ibv_close_device(c.p) }

// DeviceAttr has the used fields of struct ibv_device_attr.
type DeviceAttr struct {
	NodeGUID                                                   uint64
	VendorID                                                   uint32
	Ports                                                      int
	MaxQP, MaxQPWR, MaxSGE, MaxCQ, MaxCQE, MaxMR, MaxPD, MaxAH int
	MaxMcastGrp, MaxMcastQPAttach, MaxTotalMcastQPAttach       int
}

// Attr queries the device.
func (c Context) Attr() (DeviceAttr, syscall.Errno) {
	r := C.cv_query_device(c.p)
	a := &r.attr
	guid := *(*[8]byte)(unsafe.Pointer(&a.node_guid)) // network byte order
	d := DeviceAttr{
		VendorID: uint32(a.vendor_id), Ports: int(a.phys_port_cnt),
		MaxQP: int(a.max_qp), MaxQPWR: int(a.max_qp_wr), MaxSGE: int(a.max_sge), MaxCQ: int(a.max_cq), MaxCQE: int(a.max_cqe),
		MaxMR: int(a.max_mr), MaxPD: int(a.max_pd), MaxAH: int(a.max_ah),
		MaxMcastGrp: int(a.max_mcast_grp), MaxMcastQPAttach: int(a.max_mcast_qp_attach),
		MaxTotalMcastQPAttach: int(a.max_total_mcast_qp_attach),
	}
	for _, b := range guid {
		d.NodeGUID = d.NodeGUID<<8 | uint64(b)
	}
	return d, syscall.Errno(r.err)
}

// PortAttr has the used fields of struct ibv_port_attr.
type PortAttr struct {
	State, MaxMTU, ActiveMTU int // codes
	LinkLayer                uint8
	LID, SMLID               uint16
	GIDs, PKeys              int // lengths of the tables
	BadPKeys, QKeyViolations uint32
	ActiveWidth, ActiveSpeed uint8 // codes
}

// Port queries a port.
func (c Context) Port(port uint8) (PortAttr, syscall.Errno) {
	r := C.cv_query_port(c.p, C.uint8_t(port))
	a := &r.attr
	return PortAttr{
		State: int(a.state), MaxMTU: int(a.max_mtu), ActiveMTU: int(a.active_mtu), LinkLayer: uint8(a.link_layer),
		LID: uint16(a.lid), SMLID: uint16(a.sm_lid), GIDs: int(a.gid_tbl_len), PKeys: int(a.pkey_tbl_len),
		BadPKeys: uint32(a.bad_pkey_cntr), QKeyViolations: uint32(a.qkey_viol_cntr),
		ActiveWidth: uint8(a.active_width), ActiveSpeed: uint8(a.active_speed),
	}, syscall.Errno(r.err)
}

// GIDEntry is struct ibv_gid_entry.
type GIDEntry struct {
	GID     [16]byte
	Index   int
	Port    uint8
	Type    uint32
	IfIndex int
}

// GIDs returns up to max entries of all ports' GID tables, without the empty ones.
func (c Context) GIDs(max int) ([]GIDEntry, syscall.Errno) {
	r := C.cv_gids(c.p, C.int(max))
	if r.err != 0 {
		return nil, syscall.Errno(r.err)
	}
	defer C.free(unsafe.Pointer(r.list))
	list := make([]GIDEntry, 0, int(r.count))
	for _, e := range unsafe.Slice(r.list, int(r.count)) {
		list = append(list, goGID(e))
	}
	return list, 0
}

// GID returns an entry of a port's GID table. Error ENODATA: it is empty.
func (c Context) GID(port uint8, index int) (GIDEntry, syscall.Errno) {
	r := C.cv_gid(c.p, C.uint8_t(port), C.int(index))
	return goGID(r.entry), syscall.Errno(r.err)
}

func goGID(e C.struct_ibv_gid_entry) GIDEntry {
	return GIDEntry{GID: e.gid, Index: int(e.gid_index), Port: uint8(e.port_num), Type: uint32(e.gid_type),
		IfIndex: int(e.ndev_ifindex)}
}

// PKey returns an entry of a port's P_Key table.
func (c Context) PKey(port uint8, index int) (uint16, syscall.Errno) {
	r := C.cv_query_pkey(c.p, C.uint8_t(port), C.int(index))
	return uint16(r.pkey), syscall.Errno(r.err)
}

// AsyncEvent is an acknowledged event of the device. QP and CQ are contexts, 0 if the event has none.
type AsyncEvent struct {
	Type   int
	Port   uint8
	QP, CQ uint64
}

// AsyncFD is readable when NextAsync can return an event. It belongs to the context.
func (c Context) AsyncFD() int { return int(c.p.async_fd) }

// NextAsync retrieves the next event. Error EAGAIN: there is none, and AsyncFD does not block.
func (c Context) NextAsync() (AsyncEvent, syscall.Errno) {
	r := C.cv_next_async(c.p)
	return AsyncEvent{Type: int(r._type), Port: uint8(r.port), QP: uint64(r.qp), CQ: uint64(r.cq)}, syscall.Errno(r.err)
}

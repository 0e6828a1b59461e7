package roce

import (
	"encoding/binary"
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/offheap"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// outlet is the pair of sockets by which a queue pair sends from an address.
type outlet struct {
	d *device
	// single sends datagrams without UDP checksum, as RoCEv2 has it. The kernel
	// refuses trains without one, so they have a socket of their own, of the
	// same address and port; train is -1 where there is none.
	single, train int
	full          int // the one that had no room
	path          rocev2.Path
	to            sockaddr
	staging       []byte
	lens          [maxSegments]int

	all unix.Msghdr // a train
	cut unix.Iovec  // of all
	hdr [maxSegments]mmsghdr
	iov [maxSegments]unix.Iovec
	ctl [12]uint64 // up to three control messages; aligned for Cmsghdr

	// Guarded by device.mu.
	watched *socket  // the full one
	waiting *soft.QP // to be resumed
}

// mmsghdr is struct mmsghdr of recvmmsg(2) and sendmmsg(2).
type mmsghdr struct {
	unix.Msghdr
	n uint32 // bytes received or sent
}

// sourcePort is rxe's choice for a queue pair, for ECMP and RSS to go by: from
// the dynamic ports (kernel drivers/infiniband/sw/rxe/rxe_qp.c; linux/hash.h,
// hash_32).
func sourcePort(qpn rdma.QPN) uint16 {
	return 0xc000 | uint16(uint32(qpn)*0x61C88647>>18)
}

// portTries is how many source ports are tried: a program that does not share
// may have some.
const portTries = 64

func newOutlet(d *device, qpn rdma.QPN, src rdma.GID) (*outlet, error) {
	o := &outlet{d: d, single: -1, train: -1, path: rocev2.Path{Src: src, DstPort: rocev2.Port, DontFragment: src.IsV4Mapped()}}
	var err error
	for i := range rdma.QPN(portTries) {
		o.path.SrcPort = sourcePort(qpn + i)
		if err = o.open(); !errors.Is(err, unix.EADDRINUSE) {
			break
		}
		o.closeSockets()
	}
	if err == nil {
		o.staging, err = offheap.Alloc(maxTrainBytes + rocev2.MaxBytes)
	}
	if err != nil {
		o.closeSockets()
		return nil, err
	}
	c := (*unix.Cmsghdr)(unsafe.Pointer(&o.ctl))
	c.Level, c.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	c.SetLen(unix.CmsgLen(2))
	o.cut.Base = &o.staging[0]
	o.all = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&o.to.raw)), Iov: &o.cut, Control: (*byte)(unsafe.Pointer(&o.ctl))}
	o.all.SetIovlen(1)
	for i := range o.hdr {
		h := &o.hdr[i].Msghdr
		h.Name = (*byte)(unsafe.Pointer(&o.to.raw))
		h.Iov = &o.iov[i]
		h.SetIovlen(1)
	}
	return o, nil
}

func (o *outlet) open() (err error) {
	if o.single, err = o.socket(true); err != nil {
		return err
	}
	if !o.d.cfg.NoGSO {
		if o.train, err = o.socket(false); err != nil {
			return err
		}
	}
	return nil
}

// socket makes one of the pair.
func (o *outlet) socket(noChecksum bool) (int, error) {
	ip := o.path.Src.IP()
	fd, err := newUDP(o.d, ip.Is4())
	if err != nil {
		return -1, err
	}
	setBuffer(fd, unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, o.d.cfg.SendBuffer)
	// What is sent to the port would fill it up.
	setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, 0)
	err = named("SO_ATTACH_FILTER", dropAll(fd))
	set := func(name string, level, opt, value int) {
		if err == nil {
			err = named(name, unix.SetsockoptInt(fd, level, opt, value))
		}
	}
	if ip.Is4() {
		set("IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
		set("IP_TTL", unix.IPPROTO_IP, unix.IP_TTL, defaultHopLimit)
		set("IP_MULTICAST_TTL", unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, defaultHopLimit)
		set("IP_MULTICAST_LOOP", unix.IPPROTO_IP, unix.IP_MULTICAST_LOOP, 1)
		if err == nil {
			err = named("IP_MULTICAST_IF", unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF,
				&unix.IPMreqn{Address: ip.As4(), Ifindex: int32(o.d.link.index)}))
		}
		if noChecksum {
			set("SO_NO_CHECK", unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
		}
	} else {
		set("IPV6_MTU_DISCOVER", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO)
		set("IPV6_UNICAST_HOPS", unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, defaultHopLimit)
		set("IPV6_MULTICAST_HOPS", unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, defaultHopLimit)
		set("IPV6_MULTICAST_LOOP", unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_LOOP, 1)
		set("IPV6_MULTICAST_IF", unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, o.d.link.index)
		if noChecksum {
			set("UDP_NO_CHECK6_TX", unix.IPPROTO_UDP, udpNoCheck6TX, 1)
		}
	}
	if err == nil {
		err = bind(fd, ip, o.path.SrcPort, o.d.link.index)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// udpNoCheck6TX is UDP_NO_CHECK6_TX (linux/udp.h).
const udpNoCheck6TX = 101

func (o *outlet) closeSockets() {
	for _, fd := range []*int{&o.single, &o.train} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

func (o *outlet) close() {
	o.closeSockets()
	offheap.Free(o.staging)
	o.staging = nil
}

// control makes the control messages for what the sockets are not set to. The
// first place is kept for UDP_SEGMENT.
func (o *outlet) control(n *rdma.Header) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&o.ctl)), len(o.ctl)*8)
	at := unix.CmsgSpace(2)
	put := func(level, typ int, value int32) {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[at]))
		h.Level, h.Type = int32(level), int32(typ)
		h.SetLen(unix.CmsgLen(4))
		binary.NativeEndian.PutUint32(b[at+unix.CmsgLen(0):], uint32(value))
		at += unix.CmsgSpace(4)
	}
	level, hop, class := unix.IPPROTO_IP, unix.IP_TTL, unix.IP_TOS
	if !o.path.DontFragment {
		level, hop, class = unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT, unix.IPV6_TCLASS
	}
	if n.HopLimit != defaultHopLimit && n.HopLimit != 0 {
		put(level, hop, int32(n.HopLimit))
	}
	if n.TrafficClass != 0 {
		put(level, class, int32(n.TrafficClass))
	}
	o.setControl(at)
}

// setControl lets all messages have the control messages up to end, without the
// first.
func (o *outlet) setControl(end int) {
	for i := range o.hdr {
		h := &o.hdr[i].Msghdr
		if end == unix.CmsgSpace(2) {
			if h.Control == nil {
				return // as it was, for all of them
			}
			h.Control = nil
		} else {
			h.Control = (*byte)(unsafe.Add(unsafe.Pointer(&o.ctl), unix.CmsgSpace(2)))
		}
		h.SetControllen(end - unix.CmsgSpace(2))
	}
}

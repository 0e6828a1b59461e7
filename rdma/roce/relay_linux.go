package roce

import (
	"encoding/binary"
	"maps"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// The kernel delivers a unicast datagram to one socket of the host, whatever its queue pair is. The process with that
// socket relays it to the lease socket of the queue pair, after this header:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+---------------+---------------+---------------+
//	|  version = 1  | traffic class |   hop limit   |       0       |
//	+---------------+---------------+---------------+---------------+
//	|      UDP source port          |               0               |
//	+-------------------------------+-------------------------------+
//	|                    source GID (16 bytes)                      |
//	+---------------------------------------------------------------+
//	|                 destination GID (16 bytes)                    |
//	+---------------------------------------------------------------+
//	|          datagram, from the BTH to the ICRC                   |
//	+---------------------------------------------------------------+
//
// The receiver accepts it from processes of its own user or root, which the kernel authenticates (unix(7),
// SCM_CREDENTIALS), and checks the datagram and its ICRC as if it had arrived from the network. The length of the queue
// is net.unix.max_dgram_qlen. Datagrams that do not fit are lost, which UD permits.
const (
	relayVersion     = 1
	relayHeaderBytes = 40
)

// relayer is a prepared sendmsg to a lease socket. rxMu guards it.
type relayer struct {
	to   unix.RawSockaddrUnix
	head [relayHeaderBytes]byte
	iov  [2]unix.Iovec
	hdr  unix.Msghdr
}

// init prepares the constant parts. The abstract name begins with a zero byte and has none at its end (unix(7)).
func (r *relayer) init() {
	r.to.Family = unix.AF_UNIX
	name := leaseName(0)
	for i := range name {
		r.to.Path[i] = int8(name[i])
	}
	r.to.Path[0] = 0
	r.head[0] = relayVersion
	r.iov[0].Base = &r.head[0]
	r.iov[0].SetLen(len(r.head))
	r.hdr = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&r.to)), Namelen: uint32(2 + len(name)), Iov: &r.iov[0]}
	r.hdr.SetIovlen(len(r.iov))
}

// address sets the number in the name.
func (r *relayer) address(qpn rdma.QPN) {
	const digits = "0123456789abcdef"
	end := int(r.hdr.Namelen) - 2
	for i := 1; i <= 6; i++ {
		r.to.Path[end-i] = int8(digits[qpn&0xf])
		qpn >>= 4
	}
}

// relay relays a datagram to a queue pair. The caller holds rxMu; in has its path.
func (d *device) relay(in *input, qpn rdma.QPN, b []byte) {
	r := &d.rx.out
	r.head[1], r.head[2] = in.gram.Net.TrafficClass, in.gram.Net.HopLimit
	binary.BigEndian.PutUint16(r.head[4:], in.path.SrcPort)
	copy(r.head[8:], in.path.Src[:])
	copy(r.head[24:], in.path.Dst[:])
	r.address(qpn)
	r.iov[1].Base = &b[0]
	r.iov[1].SetLen(len(b))
	_, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(d.relayFD), uintptr(unsafe.Pointer(&r.hdr)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	switch errno {
	case 0:
		d.count.relayed.Add(1)
	case unix.ECONNREFUSED: // no process has the name
		d.count.noQP.Add(1)
	default:
		d.count.relayFailed.Add(1)
	}
}

// relayRemaining reads the unicast sockets before they are closed, and relays datagrams for other processes, which have
// no copies of them. The caller holds rxMu.
func (d *device) relayRemaining() {
	if !d.running.Load() || d.rx.mem == nil && d.rx.open(d) != nil {
		return
	}
	d.mu.Lock()
	unicast := slices.Collect(maps.Values(d.sockets.unicast))
	d.mu.Unlock()
	for _, s := range unicast {
		for round, more := 0, true; more && round < drainRounds; round++ {
			_, more = d.receiveFrom(s)
		}
	}
}

// receiveRelayed receives datagrams that other processes have relayed to a queue pair.
func (d *device) receiveRelayed(s *socket) (delivered int, more bool) {
	r := &d.rx
	// Any process may attach descriptors, so there is no room for them.
	got, errno := r.batch.RecvLimited(s.fd, recvBatch, sys.RoomForUID)
	if errno != 0 {
		return 0, errno == unix.EINTR
	}
	for i := range got {
		c := r.batch.Control(i)
		cut := r.batch.Truncated(i) || r.batch.ControlTruncated(i)
		d.relayed(s, r.mem[i*recvBytes:][:r.batch.Size(i)], !cut && d.trusts(&c))
	}
	return r.in.flush(), got == recvBatch
}

// relayed handles one message from a lease socket, and counts it.
func (d *device) relayed(s *socket, b []byte, trusted bool) {
	if trusted && d.unwrap(s, b) {
		d.count.fromRelay.Add(1)
	} else {
		d.count.relayRefused.Add(1)
	}
}

// trusts reports whether a process may relay datagrams to this one.
func (d *device) trusts(c *sys.Control) bool {
	return c.HasUID && (d.cfg.RelayAnyUser || d.users.trusts(c.UID))
}

// unwrap handles one relayed datagram. It returns false if b is not a valid one.
func (d *device) unwrap(s *socket, b []byte) bool {
	if len(b) < relayHeaderBytes+rocev2.MinBytes || b[0] != relayVersion {
		return false
	}
	src, dst := rdma.GID(b[8:24]), rdma.GID(b[24:40])
	if !d.isOwn(dst) || src.IsMulticast() || src.IsV4Mapped() != dst.IsV4Mapped() {
		return false
	}
	if d.full && dst.IsV4Mapped() {
		return true // the raw socket has it already
	}
	net := netFields{trafficClass: b[1], hopLimit: b[2]}
	port := binary.BigEndian.Uint16(b[4:])
	b = b[relayHeaderBytes:]
	if rdma.QPN(binary.BigEndian.Uint32(b[4:])&0xffffff) != s.qpn {
		return false
	}
	s.ipv4, s.dst = dst.IsV4Mapped(), dst
	d.rx.in.train(s, b, len(b), src, port, &net)
	return true
}

package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SendBatch is a batch of packets to one address, prepared to be sent as one train (sendmsg(2) with UDP_SEGMENT), or as
// single packets (sendmmsg(2)). One goroutine at a time may use it, and it must not be copied after SetAddress.
type SendBatch struct {
	to   Sockaddr
	iov  [MaxSegments]unix.Iovec
	all  unix.Msghdr          // a train
	each [MaxSegments]mmsghdr // single packets
	ctl  sendControl
}

// SetAddress sets the address to send to.
func (b *SendBatch) SetAddress(to Sockaddr) {
	if to.len != b.to.len { // the first address, or one of another family
		name := (*byte)(unsafe.Pointer(&b.to.raw))
		b.all.Name, b.all.Namelen, b.all.Iov = name, to.len, &b.iov[0]
		for i := range b.each {
			h := &b.each[i].Msghdr
			h.Name, h.Namelen, h.Iov = name, to.len, &b.iov[i]
			h.SetIovlen(1)
		}
	}
	b.to = to
	b.SetHeader(b.ctl.hopLimit, b.ctl.class)
}

// SetHeader sets hop limit and traffic class of the packets; 0 means the value of the socket.
func (b *SendBatch) SetHeader(hopLimit, trafficClass uint8) {
	if b.ctl.setHeader(b.to.Is6(), hopLimit, trafficClass) {
		for i := range b.each {
			b.ctl.attach(&b.each[i].Msghdr, 0)
		}
	}
}

// Put sets part i of a train, or packet i.
func (b *SendBatch) Put(i int, p []byte) {
	b.iov[i].Base = &p[0]
	b.iov[i].SetLen(len(p))
}

// SendTrain sends the first n parts, concatenated, as one train of packets of segment bytes, of which the last may be
// shorter; segment 0: as one packet.
func (b *SendBatch) SendTrain(fd, n, segment int) syscall.Errno {
	b.all.SetIovlen(n)
	b.ctl.attach(&b.all, segment)
	for {
		// It cannot block, so the scheduler need not be informed.
		_, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&b.all)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if errno != unix.EINTR {
			return errno
		}
	}
}

// SendEach sends the first n packets and returns the number sent, with an errno only if it sent none.
func (b *SendBatch) SendEach(fd, n int) (int, syscall.Errno) {
	for {
		sent, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&b.each)),
			uintptr(n), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(sent), 0
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// SendTo sends one packet.
func SendTo(fd int, p []byte, to *Sockaddr) syscall.Errno {
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
			uintptr(len(p)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(unsafe.Pointer(&to.raw)), uintptr(to.len))
		if errno != unix.EINTR {
			return errno
		}
	}
}

// SupportsGSO reports whether the kernel supports UDP_SEGMENT (since Linux 4.18). The socket's default stays off: each
// train carries its segment size. Only a send shows whether the path supports trains: see RefusesTrains.
func SupportsGSO(fd int) bool {
	return unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 0) == nil
}

// RefusesTrains reports whether errno means that trains cannot be sent on this path, although single packets can
// (udp_send_skb in net/ipv4/udp.c and net/ipv6/udp.c):
//
//   - EIO: the device has no checksum offload, or the route goes through IPsec;
//   - EINVAL, and EMSGSIZE in newer kernels: a segment exceeds the path's MTU, which
//     was larger before.
func RefusesTrains(errno syscall.Errno) bool {
	return errno == unix.EIO || errno == unix.EINVAL || errno == unix.EMSGSIZE
}

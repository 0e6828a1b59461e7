//go:build !fanfare_plainudp

package udp

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/transport/internal/train"
)

// message is a prepared sendmsg.
type message struct {
	hdr unix.Msghdr
	iov [maxSegments]unix.Iovec
	ctl [3]uint64 // one control message with UDP_SEGMENT; aligned for Cmsghdr
}

func (m *message) init(to *sockaddr) {
	m.hdr.Iov = &m.iov[0]
	h := (*unix.Cmsghdr)(unsafe.Pointer(&m.ctl))
	h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	if to != nil {
		m.address(to)
	}
}

func (m *message) address(to *sockaddr) {
	m.hdr.Name = (*byte)(unsafe.Pointer(&to.raw))
	m.hdr.Namelen = to.len
}

// segment has the kernel cut the message into packets of the run's size
// (udp(7), UDP_SEGMENT), unless it is only one.
func (m *message) segment(run train.Run) {
	if run.Count == 1 {
		m.hdr.Control = nil
		m.hdr.SetControllen(0)
		return
	}
	*(*uint16)(unsafe.Add(unsafe.Pointer(&m.ctl), unix.CmsgLen(0))) = uint16(run.Size)
	m.hdr.Control = (*byte)(unsafe.Pointer(&m.ctl))
	m.hdr.SetControllen(unix.CmsgSpace(2))
}

func (m *message) send(fd int) syscall.Errno {
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.hdr)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if errno != unix.EINTR {
			return errno
		}
	}
}

// mmsghdr is struct mmsghdr of recvmmsg(2) and sendmmsg(2).
type mmsghdr struct {
	unix.Msghdr
	n uint32 // bytes received or sent
}

// multi is a prepared sendmmsg of packets to one address.
type multi struct {
	hdr [maxSegments]mmsghdr
	iov [maxSegments]unix.Iovec
}

func (m *multi) init(to *sockaddr) {
	for i := range m.hdr {
		h := &m.hdr[i].Msghdr
		h.Name = (*byte)(unsafe.Pointer(&to.raw))
		h.Namelen = to.len
		h.Iov = &m.iov[i]
		h.SetIovlen(1)
	}
}

// send sends the first n packets and returns how many it sent; an errno only if
// it sent none.
func (m *multi) send(fd, n int) (int, syscall.Errno) {
	for {
		sent, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.hdr)), uintptr(n), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch errno {
		case 0:
			return int(sent), 0
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

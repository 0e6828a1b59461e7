package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is struct mmsghdr of recvmmsg(2) and sendmmsg(2).
type mmsghdr struct {
	unix.Msghdr
	n uint32 // bytes received or sent
}

// RecvBatch is a prepared recvmmsg(2) for several messages, each a datagram or a train of them. One goroutine at a time
// may use it.
type RecvBatch struct {
	hdr  []mmsghdr
	iov  []unix.Iovec
	from []Sockaddr
	ctl  []uint64 // aligned for Cmsghdr
	room int      // bytes of ctl for each message
}

// NewRecvBatch makes a batch for that many messages, each with that many bytes for control messages. Each message needs
// a buffer (SetBuffer) before Recv.
func NewRecvBatch(messages, control int) *RecvBatch {
	words := (control + 7) / 8
	r := &RecvBatch{
		hdr: make([]mmsghdr, messages), iov: make([]unix.Iovec, messages),
		from: make([]Sockaddr, messages), ctl: make([]uint64, messages*words), room: words * 8,
	}
	for i := range r.hdr {
		h := &r.hdr[i]
		h.Name = (*byte)(unsafe.Pointer(&r.from[i].raw))
		h.Iov = &r.iov[i]
		h.SetIovlen(1)
		h.Control = (*byte)(unsafe.Pointer(&r.ctl[i*words]))
	}
	return r
}

// SetBuffer sets the buffer of message i.
func (r *RecvBatch) SetBuffer(i int, b []byte) {
	r.iov[i].Base = &b[0]
	r.iov[i].SetLen(len(b))
}

// Recv receives the arrived datagrams into the first n buffers, and returns the number of filled ones. It does not
// wait.
func (r *RecvBatch) Recv(fd, n int) (int, syscall.Errno) { return r.RecvLimited(fd, n, r.room) }

// RecvLimited is Recv with less room for control messages, in bytes for each message.
func (r *RecvBatch) RecvLimited(fd, n, control int) (int, syscall.Errno) {
	hdr := r.hdr[:n]
	for i := range hdr {
		h := &hdr[i]
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(min(control, r.room))
		h.Flags = 0
	}
	// It cannot block, so the scheduler need not be informed.
	got, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(hdr))),
		uintptr(n),
		unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(got), 0
}

// Size returns the size of message i in bytes.
func (r *RecvBatch) Size(i int) int { return int(r.hdr[i].n) }

// Truncated reports whether message i was larger than its buffer.
func (r *RecvBatch) Truncated(i int) bool { return r.hdr[i].Flags&unix.MSG_TRUNC != 0 }

// ControlTruncated reports whether some control messages of message i did not fit.
func (r *RecvBatch) ControlTruncated(i int) bool { return r.hdr[i].Flags&unix.MSG_CTRUNC != 0 }

// From returns the sender of message i; it is valid until the next Recv.
func (r *RecvBatch) From(i int) *Sockaddr {
	r.from[i].len = r.hdr[i].Namelen
	return &r.from[i]
}

// Control returns the control messages of message i.
func (r *RecvBatch) Control(i int) Control {
	return ParseControl(unsafe.Slice(r.hdr[i].Control, int(r.hdr[i].Controllen)))
}

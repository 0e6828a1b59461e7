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

// RecvBatch is a prepared recvmmsg(2): room for messages, each a datagram or a train
// of them. It is for one goroutine at a time.
type RecvBatch struct {
	hdr  []mmsghdr
	iov  []unix.Iovec
	from []Sockaddr
	ctl  []uint64 // aligned for Cmsghdr
	room int      // bytes of ctl for each message
}

// NewRecvBatch makes a batch of so many messages, with control bytes of room for the control messages
// of each. Each needs a buffer before Recv.
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

// SetBuffer sets where message i goes.
func (r *RecvBatch) SetBuffer(i int, b []byte) {
	r.iov[i].Base = &b[0]
	r.iov[i].SetLen(len(b))
}

// Recv receives the datagrams that have arrived into the first n buffers, and returns how many it
// filled. It does not wait.
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
	// It cannot block, so the scheduler need not know.
	got, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(hdr))),
		uintptr(n),
		unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(got), 0
}

// Size is how many bytes message i has.
func (r *RecvBatch) Size(i int) int { return int(r.hdr[i].n) }

// Truncated reports whether message i was larger than its buffer.
func (r *RecvBatch) Truncated(i int) bool { return r.hdr[i].Flags&unix.MSG_TRUNC != 0 }

// ControlTruncated reports whether there was no room for all its control messages.
func (r *RecvBatch) ControlTruncated(i int) bool { return r.hdr[i].Flags&unix.MSG_CTRUNC != 0 }

// From is the sender of message i, until the next Recv.
func (r *RecvBatch) From(i int) *Sockaddr {
	r.from[i].len = r.hdr[i].Namelen
	return &r.from[i]
}

// Control is what its control messages say.
func (r *RecvBatch) Control(i int) Control {
	return ParseControl(unsafe.Slice(r.hdr[i].Control, int(r.hdr[i].Controllen)))
}

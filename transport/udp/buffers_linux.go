//go:build !fanfare_plainudp

package udp

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/offheap"
	"github.com/fanfaremq/fanfare/transport"
)

// maxRecv is how many messages one recvmmsg takes: enough that singly sent
// packets share its cost, few enough that their buffers stay in the cache.
const maxRecv = 32

// controlBytes is room for two control messages of four bytes: UDP_GRO and
// SO_RXQ_OVFL.
const controlBytes = 48

// receiver is the receive memory of a transport and one prepared recvmmsg,
// which all its sockets share.
type receiver struct {
	mem   []byte
	pitch int // bytes from one buffer to the next
	bufs  []buffer
	free  []int32

	// hdr[:armed] each have a buffer and await a message.
	armed int
	hdr   [maxRecv]mmsghdr
	iov   [maxRecv]unix.Iovec
	ctl   [maxRecv][controlBytes / 8]uint64
	at    [maxRecv]int32 // index of the buffer
}

// buffer is the state of a receive buffer.
type buffer struct {
	from sockaddr // of the latest train in it
	used int      // bytes
	gen  uint32   // odd while lent; finds a double Release
}

func newReceiver(buffers int) (*receiver, error) {
	// An odd number of cache lines from buffer to buffer: their starts then
	// spread over all sets of the cache.
	r := &receiver{pitch: bufferBytes + 64}
	buffers += maxRecv // which may be armed while all others are lent
	mem, err := offheap.Alloc(buffers * r.pitch)
	if err != nil {
		return nil, err
	}
	r.mem, r.bufs = mem, make([]buffer, buffers)
	for i := buffers - 1; i >= 0; i-- {
		r.free = append(r.free, int32(i))
	}
	for i := range r.hdr {
		r.hdr[i].Iov = &r.iov[i]
		r.hdr[i].SetIovlen(1)
		r.iov[i].SetLen(bufferBytes)
	}
	return r, nil
}

// close frees the memory. Trains that are lent are gone.
func (r *receiver) close() {
	offheap.Free(r.mem)
	r.mem, r.free, r.armed = nil, nil, 0
}

// arm gives header i a buffer.
func (r *receiver) arm(i int, buf int32) {
	h := &r.hdr[i]
	b := &r.bufs[buf]
	r.at[i] = buf
	r.iov[i].Base = &r.mem[int(buf)*r.pitch]
	h.Name = (*byte)(unsafe.Pointer(&b.from.raw))
	h.Namelen = unix.SizeofSockaddrInet6
	h.Control = (*byte)(unsafe.Pointer(&r.ctl[i]))
	h.SetControllen(controlBytes)
	h.Flags = 0
}

// armUpTo arms headers until n of them are.
func (r *receiver) armUpTo(n int) {
	for r.armed < n && len(r.free) > 0 {
		buf := r.free[len(r.free)-1]
		r.free = r.free[:len(r.free)-1]
		r.arm(r.armed, buf)
		r.armed++
	}
}

// rearm refills the first n headers, whose buffers are lent or given back: with
// free buffers, and when there are none left, with those of the last headers.
func (r *receiver) rearm(n int) {
	for i := range n {
		switch {
		case len(r.free) > 0:
			buf := r.free[len(r.free)-1]
			r.free = r.free[:len(r.free)-1]
			r.arm(i, buf)
		case r.armed > n:
			r.armed--
			r.arm(i, r.at[r.armed])
		default:
			r.armed = i
			return
		}
	}
}

// recvmmsg receives up to n messages into the armed headers.
func (r *receiver) recvmmsg(fd, n int) (int, syscall.Errno) {
	got, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.hdr)), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(got), 0
}

// lend marks a buffer as lent and returns the note for Lease and From.
func (r *receiver) lend(buf int32, used int, namelen uint32) uint64 {
	b := &r.bufs[buf]
	b.gen++
	b.used, b.from.len = used, namelen
	return uint64(b.gen)<<32 | uint64(buf)
}

// lent finds the buffer that a note is about, or nil if it is not lent.
func (r *receiver) lent(note uint64) *buffer {
	i := uint32(note)
	if int(i) >= len(r.bufs) || r.bufs[i].gen != uint32(note>>32) || r.bufs[i].gen&1 == 0 {
		return nil
	}
	return &r.bufs[i]
}

func (r *receiver) source(from transport.Source) (*sockaddr, bool) {
	b := r.lent(uint64(from))
	if b == nil {
		return nil, false
	}
	return &b.from, true
}

func (r *receiver) release(note uint64) {
	b := r.lent(note)
	if b == nil {
		panic("udp: train released twice, or never lent")
	}
	i := int(uint32(note))
	poison(r.mem[i*r.pitch:][:b.used])
	b.gen++
	r.free = append(r.free, int32(i))
}

//go:build !fanfare_plainudp

package udp

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/offheap"
	"github.com/fanfaremq/fanfare/transport"
)

// The way of a train in:
//
//	epoll says which sockets are ready ─► recvmmsg into free buffers ─► Train
//	Release ─► free, on top, so that the next train lands in warm memory

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
	got, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.hdr)), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
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

// Release implements transport.Transport. It panics when the train was released
// before.
func (t *Transport) Release(tr *transport.Train) {
	if !t.done.Load() {
		t.recv.release(tr.Lease)
	}
}

// Poll implements transport.Transport.
func (t *Transport) Poll(b *transport.Batch) error {
	b.Trains, b.Events = b.Trains[:0], b.Events[:0]
	if t.closing.Load() {
		return t.end()
	}
	b.Events = t.events.Take(b.Events)
	room := min(cap(b.Trains), batch)
	if room == 0 {
		return nil
	}
	// A socket that had something is tried again without asking epoll, until it
	// has nothing. Others are looked for when no such is left, and now and then.
	t.polls++
	if len(t.ready) == 0 || t.polls%16 == 0 {
		t.harvest(t.waiter.poll())
	}
	for i := 0; i < len(t.ready) && len(b.Trains) < room; {
		s := t.ready[i]
		if t.receive(s, b, room-len(b.Trains)) {
			i++
			continue
		}
		s.ready = false
		t.ready = append(t.ready[:i], t.ready[i+1:]...)
	}
	if len(t.ready) > 1 {
		// The next Poll begins with another socket.
		first := t.ready[0]
		copy(t.ready, t.ready[1:])
		t.ready[len(t.ready)-1] = first
	}
	return nil
}

// harvest notes the sockets that epoll named.
func (t *Transport) harvest(evs []unix.EpollEvent) {
	for i := range evs {
		var s *socket
		switch g := int(evs[i].Fd); {
		case g >= 0:
			s = t.groups[g]
		case g == transport.Unicast:
			s = t.unicast
		default: // an event or a timer: it has done its work by ending the wait
			continue
		}
		if !s.ready {
			s.ready = true
			t.ready = append(t.ready, s)
		}
	}
}

func (t *Transport) unready(s *socket) {
	for i := range t.ready {
		if t.ready[i] == s {
			t.ready = append(t.ready[:i], t.ready[i+1:]...)
			return
		}
	}
}

// receive takes up to room trains from a socket, in one call. It reports false
// when there was nothing, or no buffer to take it into.
func (t *Transport) receive(s *socket, b *transport.Batch, room int) bool {
	r := t.recv
	r.armUpTo(min(room, maxRecv))
	want := min(room, r.armed)
	if want == 0 {
		return false
	}
	n, errno := r.recvmmsg(s.fd, want)
	if errno != 0 {
		if errno != unix.EAGAIN && errno != unix.EINTR {
			t.received.Errors.Add(1)
		}
		return errno == unix.EINTR
	}
	packets, bytes := 0, 0
	for i := range n {
		h := &r.hdr[i]
		size := int(h.n)
		c := parseControl(unsafe.Slice((*byte)(unsafe.Pointer(&r.ctl[i])), int(h.Controllen)))
		if c.hasDrops {
			if d := s.dropped(c.drops); d > 0 {
				t.received.Overflow.Add(uint64(d))
			}
		}
		if h.Flags&unix.MSG_TRUNC != 0 {
			t.received.Truncated.Add(1)
			size = 0
		}
		buf := r.at[i]
		if size == 0 { // truncated, or a datagram without bytes, which nobody here sends
			r.free = append(r.free, buf)
			continue
		}
		segment := size
		if c.segment > 0 && c.segment < size {
			segment = c.segment
		}
		note := r.lend(buf, size, h.Namelen)
		at := int(buf) * r.pitch
		b.Trains = append(b.Trains, transport.Train{
			Data: r.mem[at : at+size : at+size], SegmentSize: segment, Group: s.group,
			From: transport.Source(note), Lease: note,
		})
		packets += (size + segment - 1) / segment
		bytes += size
	}
	r.rearm(n)
	t.received.Packets.Add(uint64(packets))
	t.received.Bytes.Add(uint64(bytes))
	t.received.Calls.Add(1)
	return true
}

// dropped is how many datagrams the socket has dropped since the last call; count
// is the kernel's running number, which wraps.
func (s *socket) dropped(count uint32) uint32 {
	d := count - s.drops
	s.drops = count
	return d
}

// control is what the control messages of a received message say.
type control struct {
	segment  int    // bytes of each packet of a train, or 0
	drops    uint32 // datagrams that the socket has dropped so far
	hasDrops bool
}

// parseControl reads control messages (cmsg(3)); b is aligned for Cmsghdr.
func parseControl(b []byte) (c control) {
	for len(b) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		size := int(h.Len)
		if size < unix.SizeofCmsghdr || size > len(b) {
			return c
		}
		data := b[unix.CmsgLen(0):size]
		switch {
		case h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO && len(data) >= 4:
			c.segment = int(*(*int32)(unsafe.Pointer(&data[0])))
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SO_RXQ_OVFL && len(data) >= 4:
			c.drops, c.hasDrops = *(*uint32)(unsafe.Pointer(&data[0])), true
		}
		b = b[min(unix.CmsgSpace(len(data)), len(b)):]
	}
	return c
}

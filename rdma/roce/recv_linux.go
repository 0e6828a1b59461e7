package roce

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/offheap"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// The way of datagrams in:
//
//	epoll says which sockets are ready ─► recvmmsg into receive memory
//	    ├─ UDP: trains, cut where the kernel says ──┐
//	    ├─ raw: IP packets, cut where the BTHs are ─┤
//	    └─ lease: what other processes received ────┴─► input: header, ICRC ─► soft.DeliverTrain

const (
	// recvBatch is how many messages one recvmmsg takes, and trainBatch how
	// many from a socket that gets trains, of 64 datagrams at most: what one
	// call brings must find room in a receive queue of moderate length, and
	// stay in the cache.
	recvBatch  = 8
	trainBatch = 2
	// recvBytes is room for the largest IP packet.
	recvBytes = 1 << 16
	// controlBytes is room for all that a receiving socket asks for: segment
	// size, overflow, TTL, TOS, packet info or credentials.
	controlBytes = 192
)

// receiver is the receive memory of a device and what goes with it. rxMu guards
// it.
type receiver struct {
	mem   []byte
	hdr   [recvBatch]mmsghdr
	iov   [recvBatch]unix.Iovec
	from  [recvBatch]sockaddr
	ctl   [recvBatch][controlBytes / 8]uint64
	evs   [64]unix.EpollEvent
	ready []*socket
	turns uint
	in    input
	out   relayer
}

func (r *receiver) open(d *device) error {
	r.in.d = d
	r.out.init()
	mem, err := offheap.Alloc(recvBatch * recvBytes)
	if err != nil {
		return err
	}
	r.mem = mem
	for i := range r.hdr {
		h := &r.hdr[i]
		r.iov[i].Base = &mem[i*recvBytes]
		r.iov[i].SetLen(recvBytes)
		h.Iov = &r.iov[i]
		h.SetIovlen(1)
		h.Name = (*byte)(unsafe.Pointer(&r.from[i].raw))
		h.Control = (*byte)(unsafe.Pointer(&r.ctl[i]))
	}
	return nil
}

func (r *receiver) close() {
	offheap.Free(r.mem)
	r.mem, r.ready = nil, nil
}

// Progress implements soft.Progressor.
func (d *device) Progress() {
	if !d.running.Load() || !d.rxMu.TryLock() {
		return // somebody else is at it
	}
	n := d.receive()
	d.rxMu.Unlock()
	d.received(n)
}

// drainRounds bounds Drain: traffic need not end.
const drainRounds = 16

// Drain implements soft.Drainer.
func (d *device) Drain() {
	if !d.running.Load() {
		return
	}
	d.rxMu.Lock()
	defer d.rxMu.Unlock()
	for range drainRounds {
		if d.rx.mem != nil {
			d.harvest()
		}
		if d.receive() == 0 {
			return
		}
	}
}

// received tells those who wait in another way that somebody has received n
// datagrams.
func (d *device) received(n int) {
	if n > 0 && d.parked.Load() > 0 {
		d.wake()
	}
}

// receive takes what is there from each socket that is ready, in one call for
// each, and delivers it. It returns how many datagrams it delivered. The caller
// holds rxMu.
func (d *device) receive() int {
	r := &d.rx
	if !d.running.Load() {
		return 0
	}
	if r.mem == nil && r.open(d) != nil {
		return 0
	}
	// A socket that had something is tried again without asking epoll, until it
	// has nothing. Others are looked for when no such is left, and now and then.
	r.turns++
	if len(r.ready) == 0 || r.turns%16 == 0 {
		d.harvest()
	}
	total := 0
	kept := r.ready[:0]
	for _, s := range r.ready {
		n, more := 0, false
		switch {
		case s.retired.Load():
		case s.kind == sendSocket:
			d.resume(s)
		case s.kind == leaseSocket:
			n, more = d.receiveRelayed(s)
		default:
			n, more = d.receiveFrom(s)
		}
		total += n
		if more {
			kept = append(kept, s)
		} else {
			s.ready = false
		}
	}
	r.ready = kept
	d.mu.Lock()
	d.bury()
	d.mu.Unlock()
	return total
}

// harvest notes the sockets that epoll names.
func (d *device) harvest() {
	r := &d.rx
	n := d.watched.ready(r.evs[:])
	if n == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range r.evs[:n] {
		if s := d.sockets[r.evs[i].Fd]; s != nil && !s.ready {
			s.ready = true
			r.ready = append(r.ready, s)
		}
	}
}

// resume lets the queue pair send again that waited for room.
func (d *device) resume(s *socket) {
	d.mu.Lock()
	q := s.out.waiting
	s.out.waiting = nil
	d.mu.Unlock()
	if q != nil {
		q.Resume()
	}
}

// receiveFrom takes what a UDP or raw socket has, in one call, and reports
// whether there may be more.
func (d *device) receiveFrom(s *socket) (delivered int, more bool) {
	r := &d.rx
	want := recvBatch
	if s.trains {
		want = trainBatch
	}
	got, errno := r.recvmmsg(s.fd, want, controlBytes)
	if errno != 0 {
		return 0, errno == unix.EINTR
	}
	in := &r.in
	s.trains = false
	for i := range got {
		h := &r.hdr[i]
		c := r.control(i)
		if c.hasDrops {
			d.count.overflow.Add(uint64(c.drops - s.drops))
			s.drops = c.drops
		}
		if h.Flags&unix.MSG_TRUNC != 0 {
			d.count.malformed.Add(1)
			continue
		}
		b := r.mem[i*recvBytes:][:h.n]
		if s.kind == rawSocket {
			s.trains = s.trains || len(b) > 2*rocev2.MaxBytes
			in.rawPacket(b, c.ifindex)
			continue
		}
		src, port := r.from[i].from()
		segment := len(b)
		if c.segment > 0 && c.segment < segment {
			segment, s.trains = c.segment, true
		}
		in.train(s, b, segment, src, port, &c.net)
	}
	d.count.receiveCalls.Add(1)
	return in.flush(), got == want
}

// recvmmsg receives into the first n buffers, with control bytes of control
// messages each.
func (r *receiver) recvmmsg(fd, n, control int) (int, syscall.Errno) {
	for i := range r.hdr[:n] {
		h := &r.hdr[i]
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(control)
		h.Flags = 0
	}
	got, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&r.hdr)), uintptr(n), unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(got), 0
}

// control is what the control messages of a received message say.
type control struct {
	net      netFields
	segment  int    // bytes of each datagram of a train, or 0
	drops    uint32 // datagrams that the socket has dropped so far
	hasDrops bool
	ifindex  int
	uid      uint32 // of the process that sent it
	hasUID   bool
}

// control reads the control messages of message i (cmsg(3)).
func (r *receiver) control(i int) (c control) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(&r.ctl[i])), int(r.hdr[i].Controllen))
	for len(b) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		size := int(h.Len)
		if size < unix.SizeofCmsghdr || size > len(b) {
			return c
		}
		data := b[unix.CmsgLen(0):size]
		word := uint32(0)
		if len(data) >= 4 {
			word = binary.NativeEndian.Uint32(data)
		} else if len(data) > 0 {
			word = uint32(data[0]) // IP_TOS has one byte
		}
		switch [2]int32{h.Level, h.Type} {
		case [2]int32{unix.IPPROTO_UDP, unix.UDP_GRO}:
			c.segment = int(word)
		case [2]int32{unix.SOL_SOCKET, unix.SO_RXQ_OVFL}:
			c.drops, c.hasDrops = word, true
		case [2]int32{unix.IPPROTO_IP, unix.IP_TTL}, [2]int32{unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT}:
			c.net.hopLimit = uint8(word)
		case [2]int32{unix.IPPROTO_IP, unix.IP_TOS}, [2]int32{unix.IPPROTO_IPV6, unix.IPV6_TCLASS}:
			c.net.trafficClass = uint8(word)
		case [2]int32{unix.IPPROTO_IP, unix.IP_PKTINFO}:
			c.ifindex = int(word)
		case [2]int32{unix.SOL_SOCKET, unix.SCM_CREDENTIALS}:
			if len(data) >= unix.SizeofUcred {
				c.uid, c.hasUID = (*unix.Ucred)(unsafe.Pointer(&data[0])).Uid, true
			}
		}
		b = b[min(unix.CmsgSpace(len(data)), len(b)):]
	}
	return c
}

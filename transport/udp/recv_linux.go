//go:build !fanfare_plainudp

package udp

import (
	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/transport"
)

// The path of a received train:
//
//	epoll says which sockets are ready ─► recvmmsg into free buffers ─► Train
//	Release ─► free, on top, so that the next train lands in warm memory

// Release implements transport.Transport. It panics when the train was released before.
func (t *Transport) Release(tr *transport.Train) {
	if !t.done.Load() {
		t.recv.release(tr.Lease)
		t.lent.Released()
	}
}

// Poll implements transport.Transport.
func (t *Transport) Poll(b *transport.Batch) error {
	b.Trains, b.Events = b.Trains[:0], b.Events[:0]
	if t.closing.Load() {
		return t.end()
	}
	// A socket that had packets is read again without epoll until it is empty. Other sockets are checked when it is, and
	// from time to time. A caller that polls without waiting mostly expects the next packet on the same socket, and epoll
	// would cost another system call.
	t.polls++
	t.round.begin(t.ready)
	switch {
	case len(t.ready) == 0 && t.warm != nil && t.polls > spinning && t.polls%4 != 0:
		t.mark(t.warm)
	case len(t.ready) == 0 || t.polls%16 == 0:
		t.markReady(t.waiter.Ready())
		t.round.polled = true
	}
	if t.linkCheckDue() {
		t.followLink()
	}
	b.Events = t.events.Take(b.Events)
	room := t.lent.Room(min(cap(b.Trains), batch))
	for i := 0; i < len(t.ready) && len(b.Trains) < room; {
		s := t.ready[i]
		if t.receive(s, b, room-len(b.Trains)) {
			i++
			continue
		}
		s.ready = false
		t.ready = append(t.ready[:i], t.ready[i+1:]...)
	}
	b.More = t.round.more()
	b.RepliesLost, t.repliesLost = t.repliesLost, false
	t.lent.Lent(len(b.Trains))
	if len(t.ready) > 1 {
		// The next Poll begins with another socket.
		first := t.ready[0]
		copy(t.ready, t.ready[1:])
		t.ready[len(t.ready)-1] = first
	}
	return nil
}

// spinning is the number of Polls without a Wait after which the caller is assumed to wait by polling.
const spinning = 4096

// markReady marks the sockets that epoll has reported: none if a signal ended the wait.
func (t *Transport) markReady(evs []unix.EpollEvent) {
	for i := range evs {
		var s *socket
		switch g := int(evs[i].Fd); {
		case g >= 0:
			s = t.groups[g]
		case g == transport.Unicast:
			s = t.unicast
		case g == markLink:
			t.linkNews = true
			continue
		default: // an eventfd or a timer, which only ends the wait
			continue
		}
		if s != nil {
			t.mark(s)
		}
	}
	t.round.polled = len(evs) > 0
}

// mark records that a socket must be read.
func (t *Transport) mark(s *socket) {
	t.round.add(s)
	if !s.ready {
		s.ready = true
		t.ready = append(t.ready, s)
	}
}

// forget removes a socket that is about to be closed.
func (t *Transport) forget(s *socket) {
	if t.warm == s {
		t.warm = nil
	}
	t.round.read(s, 0, true)
	for i := range t.ready {
		if t.ready[i] == s {
			t.ready = append(t.ready[:i], t.ready[i+1:]...)
			return
		}
	}
}

// receive reads up to room trains from a socket, in one call. It returns false if there was nothing, or no free buffer.
func (t *Transport) receive(s *socket, b *transport.Batch, room int) bool {
	r := t.recv
	r.armUpTo(min(room, maxRecv))
	want := min(room, r.armed)
	if want == 0 {
		return false
	}
	n, errno := r.batch.Recv(s.fd, want)
	if errno != 0 {
		if errno != unix.EAGAIN && errno != unix.EINTR {
			t.received.Errors.Add(1)
		}
		t.round.read(s, 0, errno != unix.EINTR)
		return errno == unix.EINTR
	}
	packets, bytes, charge := 0, 0, 0
	for i := range n {
		size := r.batch.Size(i)
		charge += sys.MinCharge(size)
		c := r.batch.Control(i)
		if d := s.drops.Update(&c); d > 0 {
			t.dropped(s, d)
		}
		if r.batch.Truncated(i) {
			t.received.Truncated.Add(1)
			size = 0
		}
		buf := r.at[i]
		if size == 0 { // truncated, or a datagram without bytes, which this package never sends
			r.free = append(r.free, buf)
			continue
		}
		segment := size
		if c.Segment > 0 && c.Segment < size {
			segment = c.Segment
		}
		token := r.lend(buf, size, r.batch.From(i))
		at := int(buf) * r.pitch
		b.Trains = append(b.Trains, transport.Train{
			Data: r.mem[at : at+size : at+size], SegmentSize: segment, Group: s.group,
			From: transport.Source(token), Lease: token,
		})
		packets += (size + segment - 1) / segment
		bytes += size
	}
	// In a flood, repeated reads of an empty socket would slow down the kernel that fills it: epoll checks without the
	// socket's locks.
	if t.warm = s; t.flood.received(bytes) {
		if t.warm = nil; !t.flood.parks {
			t.waiter.Unpark()
		}
	}
	t.round.read(s, charge, n < want)
	r.rearm(n)
	t.received.Packets.Add(uint64(packets))
	t.received.Bytes.Add(uint64(bytes))
	t.received.Calls.Add(1)
	return true
}

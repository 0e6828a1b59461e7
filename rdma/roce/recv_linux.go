package roce

import (
	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// The way of datagrams in:
//
//	epoll says which sockets are ready ─► recvmmsg into receive memory
//	    ├─ UDP: trains, cut where the kernel says ──┐
//	    ├─ raw: IP packets, cut where the BTHs are ─┤
//	    └─ lease: what other processes received ────┴─► input: header, ICRC ─► soft.DeliverTrain

const (
	// recvBatch is how many messages one recvmmsg takes, and trainBatch how many from a socket that gets trains, of 64
	// datagrams at most: what one call brings must find room in a receive queue of moderate length, and stay in the cache.
	recvBatch  = 8
	trainBatch = 2
	// recvBytes is room for the largest IP packet.
	recvBytes = 1 << 16
)

// receiver is the receive memory of a device with its state. rxMu guards it.
type receiver struct {
	mem   []byte
	batch *sys.RecvBatch
	evs   [64]unix.EpollEvent
	ready []*socket
	turns uint
	in    input
	out   relayer
}

func (r *receiver) open(d *device) error {
	r.in.d = d
	r.out.init()
	mem, err := sys.Alloc(recvBatch * recvBytes)
	if err != nil {
		return err
	}
	r.mem, r.batch = mem, sys.NewRecvBatch(recvBatch, sys.RoomForHeaders)
	for i := range recvBatch {
		r.batch.SetBuffer(i, mem[i*recvBytes:][:recvBytes])
	}
	return nil
}

func (r *receiver) close() {
	sys.Free(r.mem)
	r.mem, r.ready = nil, nil
}

// Progress implements soft.Backend.
func (d *device) Progress() bool {
	if !d.running.Load() || !d.rxMu.TryLock() {
		return true // another goroutine receives
	}
	n := d.receive()
	d.rxMu.Unlock()
	d.received(n)
	return true // a sender may have been resumed, too
}

// drainRounds bounds Drain: traffic need not end.
const drainRounds = 16

// Drain implements soft.Backend.
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

// received wakes the goroutines that wait in another way after n datagrams were received.
func (d *device) received(n int) {
	if n > 0 && d.parked.Load() > 0 {
		d.wake()
	}
}

// receive reads each socket that is ready, with one call for each, and delivers the datagrams. It
// returns how many it delivered. The caller holds rxMu.
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
	d.closeRetired()
	d.mu.Unlock()
	return total
}

// harvest records the sockets that epoll reports.
func (d *device) harvest() {
	r := &d.rx
	evs := d.sockets.watched.Ready(r.evs[:])
	if len(evs) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range evs {
		if s := d.sockets.byID[evs[i].Fd]; s != nil && !s.ready {
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

// receiveFrom reads a UDP or raw socket, in one call, and reports whether there may be more.
func (d *device) receiveFrom(s *socket) (delivered int, more bool) {
	r := &d.rx
	want := recvBatch
	if s.trains {
		want = trainBatch
	}
	got, errno := r.batch.Recv(s.fd, want)
	if errno != 0 {
		return 0, errno == unix.EINTR
	}
	in := &r.in
	s.trains = false
	for i := range got {
		c := r.batch.Control(i)
		if n := s.drops.Update(&c); n > 0 {
			d.count.overflow.Add(n)
		}
		if r.batch.Truncated(i) {
			d.count.malformed.Add(1)
			continue
		}
		b := r.mem[i*recvBytes:][:r.batch.Size(i)]
		if s.kind == rawSocket {
			s.trains = s.trains || len(b) > 2*rocev2.MaxBytes
			in.rawPacket(b, c.Interface)
			continue
		}
		segment := len(b)
		if c.Segment > 0 && c.Segment < segment {
			segment, s.trains = c.Segment, true
		}
		from := r.batch.From(i)
		in.train(s, b, segment, from.As16(), from.Port(), &netFields{c.TrafficClass, c.HopLimit})
	}
	d.count.receiveCalls.Add(1)
	return in.flush(), got == want
}

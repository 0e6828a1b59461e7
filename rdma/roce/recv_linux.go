package roce

import (
	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// The path of received datagrams:
//
//	epoll returns the readable sockets ─► recvmmsg into receive memory
//	    ├─ UDP: trains, split as the kernel reports ┐
//	    ├─ raw: IP packets, split at the BTHs ──────┤
//	    └─ lease: relayed by other processes ───────┴─► input: header, ICRC ─► soft.DeliverTrain

const (
	// recvBatch is the maximum number of messages of one recvmmsg, and trainBatch that for a socket with trains, of at
	// most 64 datagrams: the datagrams of one call must fit into a receive queue of moderate length and the cache.
	recvBatch  = 8
	trainBatch = 2
	// recvBytes is the size of the largest IP packet.
	recvBytes = 1 << 16
)

// receiver has the receive memory of a device and its state. rxMu guards it.
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

// drainRounds bounds Drain, because traffic may continue.
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
			d.markReady()
		}
		if d.receive() == 0 {
			return
		}
	}
}

// received wakes the goroutines that wait in other ways, after n datagrams were received.
func (d *device) received(n int) {
	if n > 0 && d.parked.Load() > 0 {
		d.wake()
	}
}

// receive reads each readable socket with one call, and delivers the datagrams. It returns the number of delivered
// datagrams. The caller holds rxMu.
func (d *device) receive() int {
	r := &d.rx
	if !d.running.Load() {
		return 0
	}
	if r.mem == nil && r.open(d) != nil {
		return 0
	}
	// A socket that had datagrams is read again without epoll until it is empty. epoll finds other sockets when no such
	// socket is left, and otherwise every 16th time.
	r.turns++
	if len(r.ready) == 0 || r.turns%16 == 0 {
		d.markReady()
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

// markReady records the sockets that epoll reports.
func (d *device) markReady() {
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

// resume resumes the queue pair that waits for room in a socket.
func (d *device) resume(s *socket) {
	d.mu.Lock()
	q := s.out.waiting
	s.out.waiting = nil
	d.mu.Unlock()
	if q != nil {
		q.Resume()
	}
}

// receiveFrom reads a UDP or raw socket with one call, and reports whether it may have more.
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

package ud

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/lend"
	"github.com/fanfaremq/fanfare/transport/internal/round"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
)

const (
	// batch is the maximum number of packets that one Poll returns: completions polled at once.
	batch = 64
	// maxTogether is the maximum number of receives posted by one call.
	maxTogether = 32
	// spinTime is shorter than other work of the loop, and longer than the cost of a call.
	spinTime = 2 * time.Microsecond
)

// recvQueue is the receive side: slots of one size, which are free, posted to the queue pair, or lent. Loop only,
// except the fields guarded by mu, which senders that read replies use, too (readReply).
//
// There are more slots than the queue pair's depth, by as many as can be lent: a quarter and a batch (lend.Limit). So
// lent slots do not shorten the queue.
type recvQueue struct {
	qp     rdma.QP
	cq     rdma.CQ
	link   rdma.LinkLayer
	waiter *waiter
	counts *tally.Received

	slots []slot
	sges  []rdma.SGE // of each slot
	free  []uint32   // a stack
	lent  lend.Limit

	depth    int // depth of the queue pair's receive queue
	round    round.Round
	together int // number of missing receives from which they are posted
	wrs      [maxTogether]rdma.RecvWR
	armed    bool // a notification of cq is requested
	// spinner makes the provider poll for packets while the loop spins: while it polls repeatedly without a Wait and
	// without packets. nil: not supported.
	spinner  rdma.Spinner
	spinning bool // the latest Poll returned nothing, and no Wait followed

	drops    rdma.DropCounter // qp, if it is one
	overruns atomic.Uint64    // without drops: stats.Transport.ReceiveQueueFull
	groups   atomic.Bool      // a group was ever joined: only the loop reads packets

	// mu is taken before sendQueue.mu.
	mu     sync.Mutex
	dead   bool // the queue pair is being destroyed
	posted int  // posted receives without a completion yet
	// Completions found by Wait: the next Poll handles them first.
	wcs      [batch]rdma.WorkCompletion
	from, to int
	used     int            // consecutive completions, modulo depth
	one      [1]rdma.RecvWR // used by Senders that read replies
}

// slot is memory for one packet after its GRH area.
type slot struct {
	wc  rdma.WorkCompletion // of the packet in it
	gen uint32              // odd while lent; detects a double Release
}

// address is the source of a packet: a queue pair.
type address struct {
	gid rdma.GID
	qpn rdma.QPN
}

// String is "[fe80::2:c903:0:1]:qp17".
func (a address) String() string { return fmt.Sprintf("[%v]:qp%d", a.gid, uint32(a.qpn)) }

// init makes slots in mem, each of pitch bytes with size bytes for a packet and its GRH area, and posts them.
func (q *recvQueue) init(mem []byte, lkey uint32, pitch, size int) error {
	slots := len(mem) / pitch
	q.slots, q.sges, q.free = make([]slot, slots), make([]rdma.SGE, slots), make([]uint32, 0, slots)
	for i := slots - 1; i >= 0; i-- {
		q.sges[i] = rdma.SGE{Buf: mem[i*pitch:][:size:size], LKey: lkey}
		q.free = append(q.free, uint32(i))
	}
	q.together = min(max(1, q.depth/8), maxTogether)
	q.spinner, _ = q.cq.(rdma.Spinner)
	q.drops, _ = q.qp.(rdma.DropCounter)
	return q.post(0)
}

// unread reports whether there are polled completions with packets that have not been lent yet.
func (q *recvQueue) unread() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.from < q.to
}

// post fills the receive queue, if at least missing receives are missing.
func (q *recvQueue) post(missing int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		n := min(q.depth-q.posted, len(q.free), len(q.wrs))
		if n == 0 || n < missing {
			return nil
		}
		top := q.free[len(q.free)-n:]
		for i, s := range top {
			q.wrs[i] = rdma.RecvWR{WRID: uint64(s), SG: q.sges[s : s+1 : s+1]}
		}
		posted, err := q.qp.PostRecv(q.wrs[:n])
		// The first took of them were posted; the rest stays free.
		copy(top, top[posted:])
		q.free = q.free[:len(q.free)-posted]
		q.posted += posted
		if err != nil {
			return fmt.Errorf("post receives: %w", err)
		}
	}
}

// receive lends the packets that have arrived, of groups that are joined. It reports whether receives are to be posted.
func (q *recvQueue) receive(b *transport.Batch, groups *memberships) (missing bool, fault error) {
	room := q.lent.Room(min(cap(b.Trains), batch))
	if room == 0 {
		return false, nil
	}
	spin := time.Duration(0)
	if q.spinner != nil && q.spinning && len(b.Events) == 0 {
		spin = spinTime
	}
	queued := q.depth
	q.mu.Lock()
	all, fault := q.complete(room, spin)
	if all {
		queued = 0
	}
	n, bytes := min(room, q.to-q.from), 0
	for i := range q.wcs[q.from : q.from+n] {
		size, err := q.lend(b, &q.wcs[q.from+i], groups)
		bytes, fault = bytes+size, cmp.Or(fault, err)
	}
	q.from += n
	missing = q.depth-q.posted >= q.together
	q.mu.Unlock()
	b.More = q.round.EndPoll(n, queued)
	if packets := len(b.Trains); packets > 0 {
		q.lent.Lent(packets)
		q.countRead(packets, bytes)
	}
	return missing, fault
}

func (q *recvQueue) countRead(packets, bytes int) {
	q.counts.Packets.Add(uint64(packets))
	q.counts.Bytes.Add(uint64(bytes))
	q.counts.Calls.Add(1)
}

// complete polls for up to room completions, if none is left from before, for at most spin. It reports whether these
// were all. The caller holds mu.
func (q *recvQueue) complete(room int, spin time.Duration) (all bool, err error) {
	if q.from < q.to {
		return false, nil
	}
	var n int
	if spin > 0 {
		n, err = q.spinner.PollFor(q.wcs[:room], spin)
	} else {
		n, err = q.cq.Poll(q.wcs[:room])
	}
	q.from, q.to = 0, n
	// As many consecutive completions as the queue's depth most likely mean that it was empty, and that further packets
	// found no receive.
	if q.used += n; q.used >= q.depth {
		q.used = 0
		if q.drops == nil { // otherwise the provider counts them
			q.overruns.Add(1)
		}
	}
	if n < room {
		q.used = 0
	}
	if err != nil {
		err = fmt.Errorf("poll completions: %w", err)
	}
	return n < room, err
}

// arrived polls for Wait, after a request for a notification if arm is true, and reports whether there are completions.
func (q *recvQueue) arrived(arm bool) (bool, error) {
	if arm && !q.armed {
		if err := q.cq.RequestNotify(false); err != nil {
			return true, named("ask for notification", err)
		}
		q.armed = true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	_, err := q.complete(batch, 0)
	return q.from < q.to, err
}

// lend adds the packet of a completion to b, and returns its size. Slots of packets of other groups are freed
// immediately. The caller holds mu.
func (q *recvQueue) lend(b *transport.Batch, wc *rdma.WorkCompletion, groups *memberships) (bytes int, err error) {
	i := uint32(wc.WRID)
	q.posted--
	if wc.Status != rdma.WCSuccess {
		q.free = append(q.free, i)
		q.counts.Errors.Add(1)
		return 0, fmt.Errorf("receive: %v: %w", wc.Status, errFlushed)
	}
	mem := q.sges[i].Buf
	n := int(wc.ByteLen) - rdma.GRHBytes
	h, ok := rdma.ParseGRH(q.link, mem)
	group := transport.Unicast
	switch {
	case !ok || n < 1 || n > len(mem)-rdma.GRHBytes:
		q.counts.Errors.Add(1)
		q.free = append(q.free, i)
		return 0, nil
	case h.Dst.IsMulticast():
		if group, ok = groups.find(&h.Dst); !ok {
			q.free = append(q.free, i)
			return 0, nil
		}
	}
	s := &q.slots[i]
	s.wc = *wc
	s.gen++
	lease := uint64(s.gen)<<32 | uint64(i)
	b.Trains = append(b.Trains, transport.Train{
		Data: mem[rdma.GRHBytes : rdma.GRHBytes+n : rdma.GRHBytes+n], SegmentSize: n,
		Group: group, From: transport.Source(lease), Lease: lease,
	})
	return n, nil
}

// packet returns the slot and the memory of a lease, nil if it is not lent.
func (q *recvQueue) packet(lease uint64) (*slot, []byte) {
	i := uint32(lease)
	if int(i) >= len(q.slots) || q.slots[i].gen != uint32(lease>>32) || q.slots[i].gen&1 == 0 {
		return nil, nil
	}
	return &q.slots[i], q.sges[i].Buf
}

// release frees a lent slot. It panics when it was released before.
func (q *recvQueue) release(lease uint64) {
	s, mem := q.packet(lease)
	if s == nil {
		panic("ud: train released twice, or never lent")
	}
	s.gen++
	sys.Poison(mem)
	q.free = append(q.free, uint32(lease))
	q.lent.Released()
}

// readReply copies the next reply to b, posts its slot again, and returns its size; 0 if there is none, if the loop
// must handle a completion, or if the loop is reading. Because of the copy the slot is free before the reply is
// handled, which must happen without a lock.
func (q *recvQueue) readReply(b []byte) (n int, from address) {
	if !q.mu.TryLock() {
		return 0, from
	}
	defer q.mu.Unlock()
	if q.dead {
		return 0, from
	}
	if q.from == q.to {
		n, err := q.cq.Poll(q.wcs[:])
		if q.from, q.to = 0, n; n == 0 || err != nil {
			return 0, from // Poll reports errors of the queue
		}
	}
	wc := &q.wcs[q.from]
	i := uint32(wc.WRID)
	mem := q.sges[i].Buf
	n = int(wc.ByteLen) - rdma.GRHBytes
	h, ok := rdma.ParseGRH(q.link, mem)
	if wc.Status != rdma.WCSuccess || !ok || h.Dst.IsMulticast() || n < 1 || n > min(len(b), len(mem)-rdma.GRHBytes) {
		q.waiter.wake()
		return 0, from
	}
	copy(b, mem[rdma.GRHBytes:][:n])
	q.from++
	q.one[0] = rdma.RecvWR{WRID: wc.WRID, SG: q.sges[i : i+1 : i+1]}
	if posted, _ := q.qp.PostRecv(q.one[:]); posted == 0 {
		// The queue pair is in state RESET: the loop restarts it, and posts all slots again.
		q.posted--
	}
	return n, address{h.Src, wc.SrcQPN}
}

// forget frees all slots that are not lent. The caller holds mu.
func (q *recvQueue) forget() {
	q.from, q.to, q.posted = 0, 0, 0
	q.free = q.free[:0]
	for i := range q.slots {
		if q.slots[i].gen&1 == 0 {
			q.free = append(q.free, uint32(i))
		}
	}
}

// end excludes senders that read replies, before the queue pair is destroyed.
func (q *recvQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dead = true
}

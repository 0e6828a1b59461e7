package ud

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/round"
)

// maxTogether is the maximum number of receives posted by one call.
const maxTogether = 32

// recvQueue is the receive side: slots of one size, which are free, posted to the queue pair, or lent. Loop only,
// except the fields guarded by mu, which senders that read replies use, too (replies.go).
//
// There are more slots than the queue pair's depth, by as many as can be lent: a quarter and a batch (lend.Limit). So
// lent slots do not shorten the queue.
type recvQueue struct {
	mem   []byte
	pitch int // distance of two slots in bytes
	slots []slot
	sges  []rdma.SGE // of each slot
	free  []uint32   // a stack

	depth    int // depth of the queue pair's receive queue
	round    round.Round
	together int // number of missing receives from which they are posted
	wrs      [maxTogether]rdma.RecvWR

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

// unread reports whether there are polled completions with packets that have not been lent yet.
func (q *recvQueue) unread() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.from < q.to
}

// slot is memory for one packet after its GRH area.
type slot struct {
	wc  rdma.WorkCompletion // of the packet in it
	gen uint32              // odd while lent; detects a double Release
}

func (q *recvQueue) init(mem []byte, lkey uint32, pitch, bytes, slots, depth int) {
	q.mem, q.pitch, q.depth = mem, pitch, depth
	q.together = min(max(1, depth/8), maxTogether)
	q.slots = make([]slot, slots)
	q.sges = make([]rdma.SGE, slots)
	q.free = make([]uint32, 0, slots)
	for i := slots - 1; i >= 0; i-- {
		q.sges[i] = rdma.SGE{Buf: mem[i*pitch:][:bytes:bytes], LKey: lkey}
		q.free = append(q.free, uint32(i))
	}
}

// post fills the receive queue, if at least missing receives are missing. The caller holds rq.mu.
func (t *Transport) post(missing int) error {
	q := &t.rq
	for {
		n := min(q.depth-q.posted, len(q.free), len(q.wrs))
		if n == 0 || n < missing {
			return nil
		}
		top := q.free[len(q.free)-n:]
		for i, s := range top {
			q.wrs[i] = rdma.RecvWR{WRID: uint64(s), SG: q.sges[s : s+1 : s+1]}
		}
		posted, err := t.verbs.qp.PostRecv(q.wrs[:n])
		// The first took of them were posted; the rest stays free.
		copy(top, top[posted:])
		q.free = q.free[:len(q.free)-posted]
		q.posted += posted
		if err != nil {
			return err
		}
	}
}

// receive lends the packets that have arrived.
func (t *Transport) receive(b *transport.Batch) {
	q := &t.rq
	room := t.lent.Room(min(cap(b.Trains), batch))
	if room == 0 {
		return
	}
	queued := q.depth
	q.mu.Lock()
	all, fault := t.complete(room, t.spin.limit(b))
	if all {
		queued = 0
	}
	n, bytes := min(room, q.to-q.from), 0
	for i := range q.wcs[q.from : q.from+n] {
		size, err := t.lend(b, &q.wcs[q.from+i])
		bytes, fault = bytes+size, cmp.Or(fault, err)
	}
	q.from += n
	missing := q.depth - q.posted
	q.mu.Unlock()
	if fault != nil {
		t.queueFailed(fault) // without mu, because it logs, which calls user code
	}
	b.More = q.round.EndPoll(n, queued)
	if packets := len(b.Trains); packets > 0 {
		t.lent.Lent(packets)
		t.counts.received.Packets.Add(uint64(packets))
		t.counts.received.Bytes.Add(uint64(bytes))
		t.counts.received.Calls.Add(1)
	}
	if missing >= q.together {
		t.repost(q.together)
	}
}

// complete polls for up to room completions, if none is left from before, for at most spin. It reports whether these
// were all. The caller holds rq.mu.
func (t *Transport) complete(room int, spin time.Duration) (all bool, err error) {
	q := &t.rq
	if q.from < q.to {
		return false, nil
	}
	var n int
	if spin > 0 {
		n, err = t.spin.cq.PollFor(q.wcs[:room], spin)
	} else {
		n, err = t.verbs.recv.Poll(q.wcs[:room])
	}
	q.from, q.to = 0, n
	t.usedUp(n, n < room)
	if err != nil {
		err = fmt.Errorf("poll completions: %w", err)
	}
	return n < room, err
}

// usedUp is called with a number of completions, and whether these were all. As many consecutive completions as the
// queue's depth most likely mean that it was empty, and that further packets found no receive. The caller holds rq.mu.
func (t *Transport) usedUp(n int, all bool) {
	q := &t.rq
	if q.used += n; q.used >= q.depth {
		q.used = 0
		if t.verbs.drops == nil { // otherwise the provider counts them
			t.counts.queueFull.Add(1)
		}
	}
	if all {
		q.used = 0
	}
}

// pollReceives is complete for Wait, and reports whether there are completions.
func (t *Transport) pollReceives() bool {
	q := &t.rq
	q.mu.Lock()
	_, err := t.complete(batch, 0)
	unread := q.from < q.to
	q.mu.Unlock()
	if err != nil {
		t.fail(err)
	}
	return unread
}

// repost posts free slots, unless the queue pair has failed.
func (t *Transport) repost(missing int) {
	if t.recovery.failed {
		return
	}
	t.rq.mu.Lock()
	err := t.post(missing)
	t.rq.mu.Unlock()
	if err != nil {
		t.fail(fmt.Errorf("post receives: %w", err))
	}
}

var errFlushed = errors.New("the queue pair is in error")

// lend adds the packet of a completion to b, and returns its size. Slots of packets of other groups are freed
// immediately. The caller holds rq.mu.
func (t *Transport) lend(b *transport.Batch, wc *rdma.WorkCompletion) (bytes int, err error) {
	q := &t.rq
	i := uint32(wc.WRID)
	q.posted--
	if wc.Status != rdma.WCSuccess {
		q.free = append(q.free, i)
		t.counts.received.Errors.Add(1)
		return 0, fmt.Errorf("receive: %v: %w", wc.Status, errFlushed)
	}
	mem := q.sges[i].Buf
	n := int(wc.ByteLen) - rdma.GRHBytes
	h, ok := rdma.ParseGRH(t.verbs.local.LinkLayer, mem)
	group := transport.Unicast
	switch {
	case !ok || n < 1 || n > len(mem)-rdma.GRHBytes:
		t.counts.received.Errors.Add(1)
		q.free = append(q.free, i)
		return 0, nil
	case h.Dst.IsMulticast():
		if group, ok = t.groupOf(&h.Dst); !ok {
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

// lentSlot returns the slot of a lease, nil if it is not lent.
func (q *recvQueue) lentSlot(lease uint64) (*slot, uint32) {
	i := uint32(lease)
	if int(i) >= len(q.slots) || q.slots[i].gen != uint32(lease>>32) || q.slots[i].gen&1 == 0 {
		return nil, 0
	}
	return &q.slots[i], i
}

// Release implements transport.Transport. It panics when the train was released before.
func (t *Transport) Release(train *transport.Train) {
	if t.done.Load() {
		return
	}
	q := &t.rq
	s, i := q.lentSlot(train.Lease)
	if s == nil {
		panic("ud: train released twice, or never lent")
	}
	s.gen++
	sys.Poison(q.sges[i].Buf)
	q.free = append(q.free, i)
	t.lent.Released()
}

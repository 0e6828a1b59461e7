package ud

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// maxTrain is the maximum number of packets posted at once.
const maxTrain = 64

// sendQueue is the send side of the queue pair, which all senders and replies share. Packets are numbered from 0 in the
// order of posting: retired <= posted <= retired + depth. Packet n has staging slot n mod depth.
type sendQueue struct {
	mu          sync.Mutex // guards all below
	waiter      *waiter
	qp          rdma.QP
	cq          rdma.CQ
	refusals    rdma.RefusalCounter // qp, if it is one
	dead        bool                // the queue pair is being destroyed
	fault       error               // error of a completion
	inError     bool                // the queue pair is in error. Only the loop sets it, and reads it without mu
	uncompleted bool                // the last list was accepted partially, without the request that asks for a completion
	armed       bool                // a notification of the completion queue is requested

	// posted and retired are numbers of packets. They are read without mu to check whether sends are pending.
	posted, retired atomic.Uint64
	lost            atomic.Uint64 // packets accepted by submit that the system then refused
	broken          atomic.Bool   // fault is set, for the loop to handle
	depth           uint64
	posts           []postedList // ring of posts that are not retired, with depth entries
	first, last     uint64       // numbers of the oldest and of the next post
	wrs             [maxTrain]rdma.SendWR
	sges            [maxTrain]rdma.SGE
	wcs             [16]rdma.WorkCompletion
	staging         []byte
	pitch           int // distance of two staging slots in bytes
	lkey            uint32
	// stale are address handles that are no longer used for posts, to be closed when all sends that use them have
	// completed.
	stale []staleAH
}

// postedList is one call of PostSend.
type postedList struct {
	completed *atomic.Uint64 // counts completed packets of the sender; nil: a reply
	count     uint32
	upTo      uint64 // number of the packet after its last one
}

type staleAH struct {
	ah   rdma.AH
	upTo uint64 // number of the packet after the last one that can use it
}

func (q *sendQueue) init() {
	q.refusals, _ = q.qp.(rdma.RefusalCounter)
	q.posts = make([]postedList, q.depth)
	for i := range q.wrs {
		q.wrs[i].SG = q.sges[i : i+1 : i+1]
		q.wrs[i].Opcode = rdma.OpSend
	}
}

// pending reports whether posted packets are not retired. Any goroutine may call it.
func (q *sendQueue) pending() bool { return q.posted.Load() != q.retired.Load() }

// room is how many packets can be posted now; if that is less than want it polls for completions. The caller holds mu.
func (q *sendQueue) room(want int) int {
	if q.inError {
		return 0
	}
	free := func() int { return int(q.depth - (q.posted.Load() - q.retired.Load())) }
	if free() < want {
		q.reap()
	}
	return min(free(), maxTrain)
}

// set prepares request i of the next submit. It copies data that is not in registered memory. The caller holds mu.
func (q *sendQueue) set(i int, data []byte, registered bool, lkey uint32) {
	if !registered {
		n := int((q.posted.Load() + uint64(i)) % q.depth)
		staged := q.staging[n*q.pitch:][:len(data)]
		copy(staged, data)
		data, lkey = staged, q.lkey
	}
	q.sges[i] = rdma.SGE{Buf: data, LKey: lkey}
}

// submit posts the first n requests to one destination, and returns how many were accepted: none if the system refuses
// them all. The last one asks for a completion; if it was not accepted the completion of the next list covers the
// others. The caller holds mu.
func (q *sendQueue) submit(completed *atomic.Uint64, ah rdma.AH, qpn rdma.QPN, qkey rdma.QKey, n int) (int, error) {
	base := q.posted.Load()
	for i := range n {
		wr := &q.wrs[i]
		wr.WRID, wr.AH, wr.QPN, wr.QKey, wr.Flags = base+uint64(i)+1, ah, qpn, qkey, 0
	}
	q.wrs[n-1].Flags = rdma.SendSignaled
	refused := q.refused()
	posted, err := q.qp.PostSend(q.wrs[:n])
	if refused = q.refused() - refused; refused > 0 && refused >= uint64(posted) {
		completed = nil // nothing was sent, so the sender may reuse the memory
	}
	if posted > 0 {
		q.posts[q.last%q.depth] = postedList{completed: completed, count: uint32(posted), upTo: base + uint64(posted)}
		q.last++
		q.posted.Add(uint64(posted))
	}
	full := err != nil && errors.Is(err, syscall.ENOMEM)
	if full && posted == 0 && q.uncompleted {
		// There is no room, and perhaps never a completion that makes room.
		q.blame(fmt.Errorf("send queue is full although room was computed: %w", errFlushed))
	}
	if posted > 0 {
		q.uncompleted = posted < n
	}
	switch {
	case refused > 0 && refused >= uint64(posted):
		return 0, q.refusal(ah)
	case full:
		err = errBusy
	case errors.Is(err, syscall.EMSGSIZE): // the MTU was reduced: all packets fitted the old one
		err = errTooLong
	}
	q.lost.Add(refused)
	return posted, err
}

// refused is the number of packets that the system has refused so far.
func (q *sendQueue) refused() uint64 {
	if q.refusals == nil {
		return 0
	}
	return q.refusals.Refused()
}

// refusal is the error of the last refused packet with an address handle.
func (q *sendQueue) refusal(ah rdma.AH) error {
	err := q.refusals.Refusal(ah.Attr().GRH.DGID)
	switch {
	case err == nil || errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOBUFS):
		return errBusy
	case errors.Is(err, syscall.EMSGSIZE):
		return errTooLong
	}
	return fmt.Errorf("ud: send: %w", err)
}

// reap polls for completions and retires their packets. The caller holds mu.
func (q *sendQueue) reap() {
	for {
		n, err := q.cq.Poll(q.wcs[:])
		if err != nil {
			q.blame(fmt.Errorf("poll completions of sends: %w", err))
			return
		}
		for i := range q.wcs[:n] {
			wc := &q.wcs[i]
			if wc.Status != rdma.WCSuccess {
				q.blame(fmt.Errorf("send: %v: %w", wc.Status, errFlushed))
			}
			q.retire(wc.WRID)
		}
		if n < len(q.wcs) {
			return
		}
	}
}

func (q *sendQueue) blame(err error) {
	if q.inError && errors.Is(err, errFlushed) {
		return
	}
	if q.fault == nil {
		q.fault = err
		q.broken.Store(true)
		q.waiter.wake()
	}
}

// retire releases all packets before number upTo, because a completion covers all earlier sends.
func (q *sendQueue) retire(upTo uint64) {
	if upTo > q.posted.Load() || upTo <= q.retired.Load() {
		return
	}
	q.retired.Store(upTo)
	for q.first != q.last {
		p := &q.posts[q.first%q.depth]
		if p.upTo > upTo {
			break
		}
		if p.completed != nil {
			p.completed.Add(uint64(p.count))
		}
		*p = postedList{}
		q.first++
	}
	q.closeStale()
}

// close closes an address handle as soon as no posted send uses it, because rxe reads it when it sends.
func (q *sendQueue) close(ah rdma.AH) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stale = append(q.stale, staleAH{ah, q.posted.Load()})
	q.closeStale()
}

func (q *sendQueue) closeStale() {
	for len(q.stale) > 0 && q.stale[0].upTo <= q.retired.Load() {
		_ = q.stale[0].ah.Close() // it fails only if it is closed already
		q.stale = q.stale[1:]
	}
}

// reply posts a packet to one queue pair.
func (q *sendQueue) reply(ah rdma.AH, to rdma.QPN, packet []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.room(1) < 1 {
		return errBusy
	}
	q.set(0, packet, false, 0)
	_, err := q.submit(nil, ah, to, rdma.UDPQKey, 1)
	return err
}

// poll reaps for senders.
func (q *sendQueue) poll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.dead {
		q.reap()
	}
}

// notify arms the completion queue, so that Wait returns when there is room again. The caller holds mu.
func (q *sendQueue) notify() {
	if !q.armed && !q.dead {
		// It fails only if closed.
		q.armed = q.cq.RequestNotify(false) == nil
	}
}

// advance reaps for the loop, after notify if arm is true, and reports whether packets were retired.
func (q *sendQueue) advance(arm bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if arm {
		q.notify()
	}
	before := q.retired.Load()
	q.reap()
	return q.retired.Load() != before || q.fault != nil
}

// notified records that the notification has arrived.
func (q *sendQueue) notified() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = false
}

// drain reports whether nothing is being sent, or it is late. After that nothing more is sent.
func (q *sendQueue) drain(late bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reap()
	if q.pending() && q.fault == nil && !late {
		return false
	}
	if q.dead = true; q.pending() {
		// State ERR flushes all remaining work requests. If this fails later steps fail, too, and report the error.
		_ = q.qp.Modify(rdma.QPAttr{State: rdma.QPErr}, rdma.QPMaskState)
	}
	return true
}

// flushed reports, after drain, whether the queue pair has released all packets.
func (q *sendQueue) flushed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reap()
	return !q.pending()
}

// end releases all packets after the end of the queue pair.
func (q *sendQueue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.retire(q.posted.Load())
}

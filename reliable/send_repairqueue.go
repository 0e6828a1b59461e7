package reliable

import "math/bits"

// Repairs wait in queues that take turns, packet by packet: one for packets that are repaired for the first time,
// for any subscriber, and one for each subscriber, or for a few of them if there are many. A packet may wait in
// several, and is sent once. So a subscriber that asks for more than the budget gives, because its link loses
// everything or because it is hostile, waits for itself and delays no other. docs/protocol §6.6.
const (
	firstsQueue    = 0 // of what was never repaired
	strangersQueue = 1 // of members without a queue of their own
	joinersQueue   = 2 // of those that fetch what was sent before they came: when no other has anything
	memberQueues   = 3 // from here on one for each subscriber
	repairQueues   = 32
)

// repairQueue goes round the window: what is asked for behind its position, again perhaps, waits for the next round, so
// that all get their turn. A round goes oldest first. Which packets are in it stands in Sender.index.
type repairQueue struct {
	count int
	at    uint64 // its position: the round goes on from here
	under uint64 // lowest below its position, for the next round; noSeq if none
	begun bool   // the round has repaired something
}

const noSeq = 1<<64 - 1

// add notes one more packet.
func (q *repairQueue) add(seq uint64) {
	switch {
	case q.count == 0:
		q.at, q.under, q.begun = seq, noSeq, false
	case seq >= q.at:
	case q.begun:
		q.under = min(q.under, seq)
	default:
		q.at = seq
	}
	q.count++
}

// find moves the queue's position to its next packet and returns it.
func (q *repairQueue) find(w *sendWindow, queue uint32) (seq uint64, ok bool) {
	for range 2 {
		for q.at = max(q.at, w.trail); q.at < w.sent; q.at++ {
			if w.at(q.at).queues&queue != 0 {
				return q.at, true
			}
		}
		q.at, q.under, q.begun = q.under, noSeq, false
	}
	return 0, false
}

// queue puts a packet into those of the queues, a set of bits, in which it does not wait yet.
func (r *repairs) queue(e *windowSlot, seq uint64, queues uint32) {
	if e.queues == 0 {
		r.count++
	}
	queues &^= e.queues
	e.queues |= queues
	r.active |= queues
	for ; queues != 0; queues &= queues - 1 {
		r.queues[bits.TrailingZeros32(queues)].add(seq)
	}
}

// unqueue takes a packet out of all queues.
func (r *repairs) unqueue(e *windowSlot) {
	if e.queues == 0 {
		return
	}
	r.count--
	for q := e.queues; q != 0; q &= q - 1 {
		i := bits.TrailingZeros32(q)
		if r.queues[i].count--; r.queues[i].count == 0 {
			r.active &^= 1 << i
		}
	}
	e.queues, e.again = 0, false
}

// turnOf returns the next queue in turn that has packets in it.
func (r *repairs) turnOf() (queue int, ok bool) {
	all := r.active &^ (1 << joinersQueue)
	if all == 0 {
		all = r.active
	}
	q := all &^ (1<<(r.turn+1) - 1)
	if q == 0 {
		q = all
	}
	return bits.TrailingZeros32(q), q != 0
}

// lowest is a sequence below which nothing is queued.
func (r *repairs) lowest(w *sendWindow) uint64 {
	low := w.sent
	for q := r.active; q != 0; q &= q - 1 {
		x := &r.queues[bits.TrailingZeros32(q)]
		low = min(low, x.at, x.under)
	}
	return max(low, w.trail)
}

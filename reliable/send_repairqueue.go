package reliable

import "math/bits"

// Repairs wait in queues that take turns, packet by packet: one for packets never repaired, for any receiver, and one
// for each member, or for several if there are many. A packet may wait in several queues, and is sent once. So a
// receiver that requests more than the budget allows, because its link loses everything or because it is hostile,
// delays no other. docs/protocol §6.6.
const (
	firstsQueue    = 0 // packets never repaired
	strangersQueue = 1 // for non-members
	joinersQueue   = 2 // for receivers that fetch history: served when all others are empty
	memberQueues   = 3 // the first queue of members
	repairQueues   = 32
)

// repairQueue passes through the window in rounds, the oldest packet first. Packets requested behind its position wait
// for the next round, so that all get their turn. Sender.win.index records which packets are in it.
type repairQueue struct {
	count int
	at    uint64 // where the round continues
	under uint64 // lowest packet below at, for the next round; noSeq if none
	begun bool   // the round has repaired a packet
}

const noSeq = 1<<64 - 1

// add adds a packet.
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

// queue adds a packet to those of the queues, a set of bits, in which it does not wait yet.
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

// unqueue removes a packet from all queues.
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

// turnOf returns the next queue in turn that has packets.
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

// lowest returns a sequence below which no packet is queued.
func (r *repairs) lowest(w *sendWindow) uint64 {
	low := w.sent
	for q := r.active; q != 0; q &= q - 1 {
		x := &r.queues[bits.TrailingZeros32(q)]
		low = min(low, x.at, x.under)
	}
	return max(low, w.trail)
}

package faulty

import (
	"time"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// held is a packet kept back, in a slot of the hold.
type held struct {
	lease uint32
	after uint64        // number of the arrival after which it is due
	due   time.Duration // when it is due at the latest (overtaken), or at all (delayed)
	order uint64        // among those due at the same time
}

// hold keeps copies of packets in slots of off-heap memory. The slot freed last is used next, so that as little memory
// as possible is touched.
type hold struct {
	mem  []byte
	size int // bytes of a slot
	free []int32
}

// put copies packet into a slot.
func (h *hold) put(packet []byte) (slot int32, ok bool) {
	if h.mem == nil {
		mem, err := sys.Alloc(holdPackets * h.size)
		if err != nil {
			return 0, false
		}
		h.mem = mem
		h.free = make([]int32, holdPackets)
		for i := range h.free {
			h.free[i] = int32(holdPackets - 1 - i)
		}
	}
	if len(h.free) == 0 || len(packet) > h.size {
		return 0, false
	}
	slot = h.free[len(h.free)-1]
	h.free = h.free[:len(h.free)-1]
	copy(h.mem[int(slot)*h.size:], packet)
	return slot, true
}

func (h *hold) bytes(slot int32, n int) []byte {
	at := int(slot) * h.size
	return h.mem[at : at+n : at+n]
}

func (h *hold) give(slot int32) { h.free = append(h.free, slot) }

func (h *hold) close() {
	sys.Free(h.mem)
	h.mem, h.free = nil, nil
}

// delayLine is a heap of packets by due time, then by order of arrival. It does not use container/heap, which allocates
// for each element.
type delayLine []held

func (d delayLine) less(i, j int) bool {
	if d[i].due != d[j].due {
		return d[i].due < d[j].due
	}
	return d[i].order < d[j].order
}

func (d *delayLine) push(h held) {
	*d = append(*d, h)
	q := *d
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.less(i, up) {
			break
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
}

func (d *delayLine) pop() held {
	q := *d
	top := q[0]
	last := len(q) - 1
	q[0] = q[last]
	q = q[:last]
	*d = q
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return top
		}
		if child+1 < last && q.less(child+1, child) {
			child++
		}
		if !q.less(child, i) {
			return top
		}
		q[i], q[child] = q[child], q[i]
		i = child
	}
}

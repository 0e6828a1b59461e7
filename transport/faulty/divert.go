package faulty

import (
	"time"

	"github.com/fanfaremq/fanfare/transport"
)

// divert decides at random whether to hold packet i of the cursor's train, and holds it.
func (t *Transport) divert(i int, now time.Duration) bool {
	depth := t.fates.overtaken()
	if depth == 0 && !t.delays() {
		return false
	}
	h, ok := t.keep(t.cur.train.Packet(i))
	if !ok {
		return false
	}
	if depth > 0 {
		t.held.Add(1)
		h.after, h.due = t.arrived+uint64(depth), now+reorderHold
		t.overtaken = append(t.overtaken, h)
		return true
	}
	t.delay(h, now)
	return true
}

func (t *Transport) delay(h held, now time.Duration) {
	t.held.Add(1)
	h.due = now + t.fates.delayed()
	t.delayed.push(h)
}

// keep copies a packet of the cursor's train.
func (t *Transport) keep(packet []byte) (held, bool) {
	peer, err := t.retainSource(t.cur.train.From)
	if err != nil {
		return held{}, false
	}
	slot, ok := t.hold.put(packet)
	if !ok {
		t.Forget(peer)
		return held{}, false
	}
	i, e := t.leases.alloc()
	e.held, e.slot, e.bytes, e.group, e.peer = true, slot, len(packet), t.cur.train.Group, peer
	t.order++
	return held{lease: i, order: t.order}, true
}

// release passes on one held packet that is due.
func (t *Transport) release(b *transport.Batch, now time.Duration) bool {
	if i := t.overtakenDue(now); i >= 0 {
		h := t.overtaken[i]
		t.overtaken = append(t.overtaken[:i], t.overtaken[i+1:]...)
		if t.delays() {
			t.delay(h, now)
		} else {
			t.emitHeld(b, h)
		}
		return true
	}
	if len(t.delayed) > 0 && t.delayed[0].due <= now {
		t.emitHeld(b, t.delayed.pop())
		return true
	}
	return false
}

// overtakenDue is the index of the first overtaken packet that is due, or -1.
func (t *Transport) overtakenDue(now time.Duration) int {
	for i := range t.overtaken {
		if h := &t.overtaken[i]; h.after <= t.arrived || h.due <= now {
			return i
		}
	}
	return -1
}

func (t *Transport) emitHeld(b *transport.Batch, h held) {
	e := &t.leases.all[h.lease]
	token := t.leases.token(h.lease)
	b.Trains = append(b.Trains, transport.Train{
		Data: t.hold.bytes(e.slot, e.bytes), SegmentSize: e.bytes, Group: e.group,
		From: transport.Source(token), Lease: token,
	})
}

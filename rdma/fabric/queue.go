package fabric

import (
	"container/heap"
	"time"
)

// action is a scheduled event: a timer, or the arrival of a packet at a switch or at a port.
type action struct {
	at  time.Duration
	seq uint64 // order of actions at the same time

	timer *timer
	pkt   *packet
	sw    *Switch
	from  link // the link on which pkt arrives at sw
	port  *Port
}

// timer is a function to call once, unless cancelled. Fabric.mu guards it.
type timer struct{ f func() }

// actions is a heap by time.
type actions []action

func (h actions) Len() int { return len(h) }
func (h actions) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h actions) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *actions) Push(x any)   { panic("unused: it would allocate") }
func (h *actions) Pop() any     { panic("unused: it would allocate") }

// add inserts an action. It allocates only when the heap grows.
func (h *actions) add(a action) {
	*h = append(*h, a)
	heap.Fix(h, len(*h)-1)
}

// take removes the earliest action.
func (h *actions) take() action {
	old := *h
	a := old[0]
	n := len(old) - 1
	old[0] = old[n]
	old[n] = action{}
	*h = old[:n]
	if n > 0 {
		heap.Fix(h, 0)
	}
	return a
}

// schedule adds an action after d. The caller holds mu.
func (f *Fabric) schedule(d time.Duration, a action) {
	a.at = f.time() + max(d, 0)
	f.seq++
	a.seq = f.seq
	f.queue.add(a)
	f.wakePump()
}

// after calls fn when d has passed.
func (f *Fabric) after(d time.Duration, fn func()) (cancel func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return func() {}
	}
	t := &timer{fn}
	f.schedule(d, action{timer: t})
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		t.f = nil
	}
}

// next returns the time of the earliest action except cancelled timers. The caller holds mu.
func (f *Fabric) next() (time.Duration, bool) {
	for len(f.queue) > 0 {
		a := &f.queue[0]
		if a.timer == nil || a.timer.f != nil {
			return a.at, true
		}
		f.queue.take()
	}
	return 0, false
}

// runDue executes the earliest action if it is due at limit, and otherwise returns false. The caller must not hold a
// lock, because actions call the hosts.
func (f *Fabric) runDue(limit time.Duration) bool {
	f.mu.Lock()
	at, ok := f.next()
	if !ok || at > limit || f.closed {
		f.mu.Unlock()
		return false
	}
	a := f.queue.take()
	f.now = max(f.now, a.at)
	switch {
	case a.timer != nil:
		fn := a.timer.f
		f.mu.Unlock()
		fn()
	case a.sw != nil:
		a.sw.forward(a.pkt, a.from)
		f.release(a.pkt)
		f.mu.Unlock()
	default:
		up := a.port.up
		f.mu.Unlock()
		taken := 0
		if up {
			taken = a.port.hca.dev.Deliver(a.port.num, &a.pkt.d, a.pkt.payload)
		}
		f.mu.Lock()
		f.stats.Delivered += uint64(taken)
		if !up {
			f.stats.PortDown++
		}
		f.release(a.pkt)
		f.mu.Unlock()
	}
	return true
}

// Package inbox is a bounded queue of received trains in off-heap slots: many producers, one consumer that borrows
// slots and returns them in any order, without locks, and with parking instead of a busy loop.
//
//	producer:  Acquire a slot ─► write the packets into it ─► Publish
//	consumer:  Next (the slot is lent) ─► Release
//
// It consists of two lock-free structures. Free slots are a stack, so that the slot released last, still warm in the
// cache, is filled next. Filled slots are a ring of slot numbers in the order of Publish.
package inbox

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// Item describes the train in a slot.
type Item struct {
	Bytes       int // bytes used
	SegmentSize int // bytes of each packet but the last
	Group       int
	From        uint64
}

// Inbox is the queue. Acquire, Discard, Publish and Wake may be called by any
// goroutine, everything else by the consumer.
type Inbox struct {
	mem       []byte
	slotBytes int
	pitch     int // distance of two slots in bytes
	slots     []slot

	// free is the top of the stack of free slots: slot+1 in the lower half, 0 for none, and in the upper half a count of
	// all changes. Without it a producer that read the top, slept, and woke when the same slot was on top again would
	// install an outdated link.
	free atomic.Uint64
	_    [56]byte
	tail atomic.Uint64 // position in ring of the next Publish
	_    [56]byte
	// ring[i] is slot+1, or 0 while the producer that owns the position has not stored it yet. It is large enough, because
	// every position in use holds a slot.
	ring []atomic.Uint32
	mask uint64
	head uint64 // consumer's position

	parked atomic.Bool
	signal chan struct{} // one token: return from Wait
	timer  *time.Timer
}

type slot struct {
	item Item
	next atomic.Uint32 // in the free stack: slot+1 of the one below
	gen  uint32        // odd while lent; detects a double Release
}

// New makes a queue of trains slots with room for slotBytes each. Only as many slots are touched as were ever filled at
// a time.
func New(trains, slotBytes int) (*Inbox, error) {
	if trains <= 0 || trains > 1<<24 || slotBytes <= 0 {
		return nil, fmt.Errorf("inbox: cannot make %d slots of %d bytes", trains, slotBytes)
	}
	// An odd number of cache lines from slot to slot: the starts of the slots then spread over all sets of the cache.
	pitch := (slotBytes + 63) &^ 63
	if pitch/64%2 == 0 {
		pitch += 64
	}
	mem, err := sys.Alloc(trains * pitch)
	if err != nil {
		return nil, err
	}
	size := 1
	for size < trains {
		size *= 2
	}
	q := &Inbox{
		mem: mem, slotBytes: slotBytes, pitch: pitch,
		slots:  make([]slot, trains),
		ring:   make([]atomic.Uint32, size),
		mask:   uint64(size - 1),
		signal: make(chan struct{}, 1),
		timer:  time.NewTimer(time.Hour),
	}
	q.timer.Stop()
	for i := trains - 1; i >= 0; i-- {
		q.push(uint32(i))
	}
	return q, nil
}

// Free frees the memory. No goroutine may use the inbox any more.
func (q *Inbox) Free() {
	sys.Free(q.mem)
	q.mem = nil
}

// Acquire takes a free slot and returns its memory, or ok == false if there is none. Publish or Discard must follow.
func (q *Inbox) Acquire() (s uint32, mem []byte, ok bool) {
	for {
		top := q.free.Load()
		s := uint32(top)
		if s == 0 {
			return 0, nil, false
		}
		s--
		below := q.slots[s].next.Load()
		if q.free.CompareAndSwap(top, (top>>32+1)<<32|uint64(below)) {
			return s, q.memory(s, q.slotBytes), true
		}
	}
}

// Discard puts an acquired slot back unused.
func (q *Inbox) Discard(s uint32) { q.push(s) }

// Publish appends the acquired slot to the queue and wakes the consumer.
func (q *Inbox) Publish(s uint32, item Item) {
	q.slots[s].item = item
	at := q.tail.Add(1) - 1
	q.ring[at&q.mask].Store(s + 1)
	// The consumer sets parked before its last check of the ring, so either it sees the train or this goroutine sees
	// parked.
	if q.parked.Load() {
		q.Wake()
	}
}

// Next lends the oldest train: its description, its bytes and the lease for Release. ok is false when there is none.
func (q *Inbox) Next() (item *Item, data []byte, lease uint64, ok bool) {
	at := &q.ring[q.head&q.mask]
	v := at.Load()
	if v == 0 {
		return nil, nil, 0, false
	}
	at.Store(0)
	q.head++
	s := v - 1
	sl := &q.slots[s]
	sl.gen++
	return &sl.item, q.memory(s, sl.item.Bytes), uint64(sl.gen)<<32 | uint64(s), true
}

// Item returns the description of the train that is lent under lease.
func (q *Inbox) Item(lease uint64) (*Item, bool) {
	s := uint32(lease)
	if int(s) >= len(q.slots) || q.slots[s].gen != uint32(lease>>32) || q.slots[s].gen&1 == 0 {
		return nil, false
	}
	return &q.slots[s].item, true
}

// Release returns a slot. It panics if the lease is not, or no longer, lent: its memory may already hold another train.
func (q *Inbox) Release(lease uint64) {
	item, ok := q.Item(lease)
	if !ok {
		panic("transport: train released twice, or never lent")
	}
	s := uint32(lease)
	sys.Poison(q.memory(s, item.Bytes))
	q.slots[s].gen++
	q.push(s)
}

// Ready reports whether Next would find a train.
func (q *Inbox) Ready() bool { return q.ring[q.head&q.mask].Load() != 0 }

// Unread is the number of queued trains; 0 while the oldest is still being published.
func (q *Inbox) Unread() int {
	if !q.Ready() {
		return 0
	}
	return int(q.tail.Load() - q.head)
}

// Wait blocks until a train is published, Wake is called, more reports true, or timeout has passed; a negative timeout
// means no limit. more is called once, after parked is visible to producers. The timeout is as coarse as Go's timers: 1
// ms in an idle process.
func (q *Inbox) Wait(timeout time.Duration, more func() bool) {
	q.parked.Store(true)
	defer q.parked.Store(false)
	if q.Ready() || more() {
		return
	}
	if timeout < 0 {
		<-q.signal
		return
	}
	if timeout == 0 {
		select {
		case <-q.signal:
		default:
		}
		return
	}
	q.timer.Reset(timeout)
	select {
	case <-q.signal:
		q.timer.Stop()
	case <-q.timer.C:
	}
}

// Wake makes the current or the next Wait return.
func (q *Inbox) Wake() {
	select {
	case q.signal <- struct{}{}:
	default: // a token is there already
	}
}

func (q *Inbox) push(s uint32) {
	for {
		top := q.free.Load()
		q.slots[s].next.Store(uint32(top))
		if q.free.CompareAndSwap(top, (top>>32+1)<<32|uint64(s+1)) {
			return
		}
	}
}

func (q *Inbox) memory(s uint32, n int) []byte {
	at := int(s) * q.pitch
	return q.mem[at : at+n : at+n]
}

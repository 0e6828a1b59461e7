package slow

import (
	"bytes"
	"hash/maphash"
)

// Conflation is a queue for a reader that needs only the newest message of each key. A newer message replaces the
// queued one with the same key; keys leave the queue in the order in which they entered it. Marks between messages, for
// gaps and the ends of publishers, are not replaced.
//
// Memory is bounded by the number of keys and marks, and by the bytes of keys and messages. Buffers are reused: for
// repeated keys nothing is allocated.
type Conflation[T any] struct {
	limits   Limits
	hash     func(key []byte) uint64
	first    map[uint64]int32 // key: hash of the message's key; the first entry of a chain
	entries  []entry[T]
	queue    list
	free     list
	taken    []int32 // since the last Return
	waiting  int     // in queue
	bytes    int     // of all buffers
	spare    int     // bytes of buffers in free
	replaced uint64
	crowded  bool
}

// Limits bound a Conflation. A single message is accepted whatever its size.
type Limits struct {
	Keys  int
	Bytes int
}

// entry is a queued message or mark, or a free entry.
type entry[T any] struct {
	value     T
	key, data []byte
	hash      uint64
	chain     int32 // the next entry with the same hash
	next      int32 // in queue or free
	mark      bool
}

// none is the index of no entry.
const none = -1

// list is a list of entries, by entry.next.
type list struct{ head, tail int32 }

// NewConflation returns an empty Conflation.
func NewConflation[T any](limits Limits) *Conflation[T] {
	seed := maphash.MakeSeed() // so that attackers cannot make long chains
	return &Conflation[T]{
		limits: limits, first: make(map[uint64]int32), queue: list{none, none}, free: list{none, none},
		hash: func(key []byte) uint64 { return maphash.Bytes(seed, key) },
	}
}

// Put queues the newest message of key: v and a copy of data. If there is no room until an entry is taken, it returns
// false and changes nothing.
func (c *Conflation[T]) Put(key, data []byte, v T) bool {
	ok := c.put(key, data, v)
	c.crowded = c.crowded || !ok
	return ok
}

func (c *Conflation[T]) put(key, data []byte, v T) bool {
	hash := c.hash(key)
	i := c.find(hash, key)
	if i != none {
		e := &c.entries[i]
		if !c.room(e, 0, len(data), c.waiting == 1) {
			return false
		}
		c.resize(&e.data, data)
		e.value = v
		c.replaced++
		return true
	}
	if c.waiting > 0 && c.waiting >= c.limits.Keys {
		return false
	}
	i = c.unused()
	e := &c.entries[i]
	if !c.room(e, len(key), len(data), c.waiting == 0) {
		c.release(i)
		return false
	}
	c.resize(&e.key, key)
	c.resize(&e.data, data)
	e.value, e.hash, e.mark = v, hash, false
	e.chain = none
	if head, ok := c.first[hash]; ok {
		e.chain = head
	}
	c.first[hash] = i
	c.push(&c.queue, i)
	c.waiting++
	return true
}

// Mark queues v after all entries. It returns false if there is no room.
func (c *Conflation[T]) Mark(v T) bool {
	if c.waiting > 0 && c.waiting >= c.limits.Keys {
		c.crowded = true
		return false
	}
	i := c.unused()
	e := &c.entries[i]
	e.value, e.mark = v, true
	c.push(&c.queue, i)
	c.waiting++
	return true
}

// Take removes the oldest entry. data is nil for a mark; it is valid until Return.
func (c *Conflation[T]) Take() (v T, data []byte, ok bool) {
	i := c.queue.head
	if i == none {
		return v, nil, false
	}
	c.pop(&c.queue)
	c.waiting--
	c.taken = append(c.taken, i)
	e := &c.entries[i]
	if e.mark {
		return e.value, nil, true
	}
	c.unlink(i)
	return e.value, e.data, true
}

// NextIsMark reports whether Take would return a mark.
func (c *Conflation[T]) NextIsMark() bool {
	return c.queue.head != none && c.entries[c.queue.head].mark
}

// Drop drops the queued entries that match. They count neither as taken nor as replaced.
func (c *Conflation[T]) Drop(match func(*T) bool) {
	i := c.queue.head
	c.queue = list{none, none}
	for i != none {
		e := &c.entries[i]
		next := e.next
		if match(&e.value) {
			if !e.mark {
				c.unlink(i)
			}
			c.waiting--
			c.release(i)
		} else {
			c.push(&c.queue, i)
		}
		i = next
	}
}

// Return ends the use of the data from Take.
func (c *Conflation[T]) Return() {
	for _, i := range c.taken {
		c.release(i)
	}
	c.taken = c.taken[:0]
}

// Crowded reports whether a message did not fit, and half of the capacity has not been free since. Publishers do not
// wait for such a slow reader, even if it frees single entries.
func (c *Conflation[T]) Crowded() bool {
	if c.crowded && c.waiting <= c.limits.Keys/2 && c.bytes-c.spare <= c.limits.Bytes/2 {
		c.crowded = false
	}
	return c.crowded
}

// Waiting returns the number of queued messages and marks.
func (c *Conflation[T]) Waiting() int { return c.waiting }

// Replaced returns the number of messages that were replaced by newer ones with their keys.
func (c *Conflation[T]) Replaced() uint64 { return c.replaced }

// Bytes returns the memory of all buffers.
func (c *Conflation[T]) Bytes() int { return c.bytes }

// find returns the queued entry with a key.
func (c *Conflation[T]) find(hash uint64, key []byte) int32 {
	i, ok := c.first[hash]
	if !ok {
		return none
	}
	for i != none && !bytes.Equal(c.entries[i].key, key) {
		i = c.entries[i].chain
	}
	return i
}

// unlink removes an entry's key from the hash table.
func (c *Conflation[T]) unlink(i int32) {
	e := &c.entries[i]
	at := c.first[e.hash]
	switch {
	case at == i && e.chain == none:
		delete(c.first, e.hash)
	case at == i:
		c.first[e.hash] = e.chain
	default:
		for c.entries[at].chain != i {
			at = c.entries[at].chain
		}
		c.entries[at].chain = e.chain
	}
}

// unused returns an entry that is not in use.
func (c *Conflation[T]) unused() int32 {
	if i := c.free.head; i != none {
		c.pop(&c.free)
		c.spare -= cap(c.entries[i].key) + cap(c.entries[i].data)
		return i
	}
	c.entries = append(c.entries, entry[T]{})
	return int32(len(c.entries) - 1)
}

// release frees an entry. It is used next, because its buffers are still in the processor's cache.
func (c *Conflation[T]) release(i int32) {
	e := &c.entries[i]
	var zero T
	e.value = zero
	c.spare += cap(e.key) + cap(e.data)
	e.next = c.free.head
	if c.free.head = i; c.free.tail == none {
		c.free.tail = i
	}
}

// room reports whether an entry's buffers may hold key and data of these sizes. It first frees unused buffers. only
// means that nothing else is queued.
func (c *Conflation[T]) room(e *entry[T], key, data int, only bool) bool {
	more := growth(e.key, key) + growth(e.data, data)
	if more == 0 || c.bytes+more <= c.limits.Bytes {
		return true
	}
	if c.spare > 0 {
		for i := c.free.head; i != none; i = c.entries[i].next {
			c.entries[i].key, c.entries[i].data = nil, nil
		}
		c.bytes -= c.spare
		c.spare = 0
	}
	return only || c.bytes+more <= c.limits.Bytes
}

// roundUp is the granularity of buffer sizes.
const roundUp = 64

// growth returns by how much a buffer must grow for n bytes.
func growth(buf []byte, n int) int {
	if n <= cap(buf) {
		return 0
	}
	return (n+roundUp-1)/roundUp*roundUp - cap(buf)
}

// resize makes buf a copy of p.
func (c *Conflation[T]) resize(buf *[]byte, p []byte) {
	if more := growth(*buf, len(p)); more > 0 {
		c.bytes += more
		*buf = make([]byte, 0, cap(*buf)+more)
	}
	*buf = append((*buf)[:0], p...)
}

func (c *Conflation[T]) push(l *list, i int32) {
	c.entries[i].next = none
	if l.tail == none {
		l.head = i
	} else {
		c.entries[l.tail].next = i
	}
	l.tail = i
}

func (c *Conflation[T]) pop(l *list) {
	if l.head = c.entries[l.head].next; l.head == none {
		l.tail = none
	}
}

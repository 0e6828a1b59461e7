// Package peers interns addresses: a bounded table from an address of type K to a small handle with a reference count.
package peers

import (
	"fmt"
	"iter"

	"github.com/fanfaremq/fanfare/transport"
)

// DefaultLimit is the default maximum of distinct peers that a transport retains. A peer takes about 100 bytes; the
// limit bounds the table under forged source addresses.
const DefaultLimit = 4096

// MaxLimit is the largest limit: a Peer has 16 bits for the index.
const MaxLimit = 1<<16 - 1

// Table interns addresses. V is the data that the transport needs to send to a peer. A table belongs to
// one goroutine, the loop.
type Table[K comparable, V any] struct {
	limit   int
	index   map[K]int
	entries []entry[K, V]
	free    []int
}

type entry[K comparable, V any] struct {
	key  K
	val  V
	refs int
	// gen distinguishes a forgotten peer from the next one in its slot; it is the upper half of the Peer.
	gen uint16
}

// New returns a table for up to limit peers; zero means DefaultLimit.
func New[K comparable, V any](limit int) *Table[K, V] {
	if limit <= 0 {
		limit = DefaultLimit
	}
	return &Table[K, V]{limit: min(limit, MaxLimit), index: make(map[K]int)}
}

// Retain returns the peer of key with one more reference, and creates it with the value val if it is new. Beyond the
// limit it returns transport.ErrPeerLimit.
func (t *Table[K, V]) Retain(key K, val V) (transport.Peer, error) {
	if i, ok := t.index[key]; ok {
		t.entries[i].refs++
		return t.peer(i), nil
	}
	var i int
	switch {
	case len(t.free) > 0:
		i = t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
	case len(t.entries) < t.limit:
		i = len(t.entries)
		t.entries = append(t.entries, entry[K, V]{})
	default:
		return 0, fmt.Errorf("%w: %d", transport.ErrPeerLimit, t.limit)
	}
	e := &t.entries[i]
	e.key, e.val, e.refs = key, val, 1
	t.index[key] = i
	return t.peer(i), nil
}

// Forget drops one reference. It ignores a peer that is not retained.
func (t *Table[K, V]) Forget(p transport.Peer) {
	e := t.entry(p)
	if e == nil {
		return
	}
	if e.refs--; e.refs > 0 {
		return
	}
	delete(t.index, e.key)
	*e = entry[K, V]{gen: e.gen + 1}
	t.free = append(t.free, int(p&0xffff)-1)
}

// Get returns the value of a retained peer, or nil. The pointer is valid until the next Retain or Forget.
func (t *Table[K, V]) Get(p transport.Peer) *V {
	if e := t.entry(p); e != nil {
		return &e.val
	}
	return nil
}

// Key returns the address of a retained peer.
func (t *Table[K, V]) Key(p transport.Peer) (key K, ok bool) {
	if e := t.entry(p); e != nil {
		return e.key, true
	}
	return key, false
}

// All yields the values of all retained peers.
func (t *Table[K, V]) All() iter.Seq[V] {
	return func(yield func(V) bool) {
		for i := range t.entries {
			if t.entries[i].refs > 0 && !yield(t.entries[i].val) {
				return
			}
		}
	}
}

// Len is the number of retained peers.
func (t *Table[K, V]) Len() int { return len(t.index) }

func (t *Table[K, V]) peer(i int) transport.Peer {
	return transport.Peer(uint32(t.entries[i].gen)<<16 | uint32(i+1))
}

func (t *Table[K, V]) entry(p transport.Peer) *entry[K, V] {
	i := int(p&0xffff) - 1
	if i < 0 || i >= len(t.entries) {
		return nil
	}
	e := &t.entries[i]
	if e.refs == 0 || e.gen != uint16(p>>16) {
		return nil
	}
	return e
}

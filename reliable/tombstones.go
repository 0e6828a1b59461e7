package reliable

import "slices"

// tombstones remember what is not kept any more, so that late and replayed packets do not bring it back: at a receiver
// streams that ended or were evicted, at a publisher subscribers that left. The latest are kept, and of those that
// belong together no more than a share, so that one that comes and goes again and again does not displace what is
// remembered of others. docs/protocol §8.5, §12.1.
type tombstones[K comparable, V any] struct {
	kept     int               // at most
	share    int               // at most of those that belong together
	together func(a, b K) bool // nil: none do
	of       map[K]V
	order    []K // the oldest first
}

// remember notes the last that is known of key.
func (t *tombstones[K, V]) remember(key K, x V) {
	if t.of == nil {
		t.of = make(map[K]V)
	}
	if _, ok := t.of[key]; !ok {
		t.makeRoom(key)
		t.order = append(t.order, key)
	}
	t.of[key] = x
}

// makeRoom forgets the oldest that belongs with key, if these have their share, or of all.
func (t *tombstones[K, V]) makeRoom(key K) {
	first, n := 0, 0
	if t.together != nil {
		for i, k := range t.order {
			if t.together(k, key) {
				if n++; n == 1 {
					first = i
				}
			}
		}
	}
	if t.together == nil || n < t.share {
		if len(t.order) < t.kept {
			return
		}
		first = 0
	}
	delete(t.of, t.order[first])
	t.order = append(t.order[:first], t.order[first+1:]...)
}

// drop forgets all of which gone reports true.
func (t *tombstones[K, V]) drop(gone func(V) bool) {
	t.order = slices.DeleteFunc(t.order, func(key K) bool {
		if !gone(t.of[key]) {
			return false
		}
		delete(t.of, key)
		return true
	})
}

// find returns what is remembered of key.
func (t *tombstones[K, V]) find(key K) (x V, ok bool) {
	x, ok = t.of[key]
	return x, ok
}

// formerStream is what a receiver remembers of a stream that it keeps no more.
type formerStream struct {
	evicted bool   // it goes on where it stood, if its publisher is heard again
	next    uint64 // where an evicted one stood
}

// formerStreams are those of a group. One publisher id has a share of them, however often it restarts.
func formerStreams() tombstones[Instance, formerStream] {
	return tombstones[Instance, formerStream]{
		kept: tombstonesKept, share: tombstonesEach,
		together: func(a, b Instance) bool { return a.Publisher == b.Publisher },
	}
}

// formerMembers are the subscribers that have left a stream or were released, with the
// order of the last status of each.
func formerMembers() tombstones[uint64, statusOrder] {
	return tombstones[uint64, statusOrder]{kept: farewellsKept}
}

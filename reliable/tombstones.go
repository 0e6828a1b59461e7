package reliable

import (
	"slices"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// tombstones remember removed entries, so that late and replayed packets do not bring them back: at a receiver, streams
// that ended or were evicted; at a publisher, members that left. They keep the latest, and only a share of entries that
// belong together, so that an entry which comes and goes repeatedly does not displace others. docs/protocol §8.5,
// §12.1.
type tombstones[K comparable, V any] struct {
	kept     int               // maximum number
	share    int               // maximum number of entries that belong together
	together func(a, b K) bool // nil: no entries do
	of       map[K]V
	order    []K // the oldest first
}

// remember stores the last known value of key.
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

// makeRoom forgets the oldest entry that belongs with key, if these have reached their share, or else the oldest of all
// if kept is reached.
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

// drop forgets all entries for which gone reports true.
func (t *tombstones[K, V]) drop(gone func(V) bool) {
	t.order = slices.DeleteFunc(t.order, func(key K) bool {
		if !gone(t.of[key]) {
			return false
		}
		delete(t.of, key)
		return true
	})
}

// find returns the value remembered for key.
func (t *tombstones[K, V]) find(key K) (x V, ok bool) {
	x, ok = t.of[key]
	return x, ok
}

// formerStream is what a receiver remembers of a removed stream.
type formerStream struct {
	evicted bool   // it continues where it stopped, if its publisher returns
	next    uint64 // next sequence of an evicted stream
}

// formerStreams remembers the removed streams of a group. Each publisher id has a share, however often it restarts.
func formerStreams() tombstones[events.Instance, formerStream] {
	return tombstones[events.Instance, formerStream]{
		kept: tombstonesKept, share: tombstonesEach,
		together: func(a, b events.Instance) bool { return a.Publisher == b.Publisher },
	}
}

// formerMembers remembers the receivers that left a stream or were removed as silent, with the order of their last
// statuses.
func formerMembers() tombstones[uint64, statusOrder] {
	return tombstones[uint64, statusOrder]{kept: farewellsKept}
}

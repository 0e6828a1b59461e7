package reliable

// tombstones remember streams that are not kept any more: those that ended, so that late
// packets do not bring them back, and those that were evicted, so that they go on where
// they stood. The latest tombstonesKept are kept, and of one publisher id no more than
// tombstonesEach, so that one that restarts again and again does not displace what is
// remembered of others.
type tombstones struct {
	of    map[streamKey]tombstone
	order []streamKey // the oldest first
}

type tombstone struct {
	evicted bool
	next    uint64 // of an evicted stream: where it stood
}

// remember notes what became of a stream.
func (t *tombstones) remember(key streamKey, x tombstone) {
	if t.of == nil {
		t.of = make(map[streamKey]tombstone)
	}
	if _, ok := t.of[key]; !ok {
		t.makeRoom(key.publisher)
		t.order = append(t.order, key)
	}
	t.of[key] = x
}

// makeRoom forgets the oldest of the publisher, if it has its share, or of all.
func (t *tombstones) makeRoom(publisher uint64) {
	first, n := -1, 0
	for i, k := range t.order {
		if k.publisher == publisher {
			if n++; first < 0 {
				first = i
			}
		}
	}
	if n < tombstonesEach {
		if len(t.order) < tombstonesKept {
			return
		}
		first = 0
	}
	delete(t.of, t.order[first])
	t.order = append(t.order[:first], t.order[first+1:]...)
}

// ended reports whether the stream has ended.
func (t *tombstones) ended(key streamKey) bool {
	x, ok := t.of[key]
	return ok && !x.evicted
}

// resume returns where an evicted stream stood.
func (t *tombstones) resume(key streamKey) (next uint64, ok bool) {
	x, ok := t.of[key]
	return x.next, ok && x.evicted
}

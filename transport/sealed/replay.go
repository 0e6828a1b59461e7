package sealed

import "slices"

const (
	// windowPackets is how many counters of a sender are remembered, on each leg: a packet that
	// comes behind so many later ones is refused, and is missing.
	windowPackets = 16384
	// nearPackets is how far from what has come a counter may be and be plausible at once.
	nearPackets = 512
	// maxWindows is at how many places, far from each other, the counters of a sender may go on.
	maxWindows = 3
	// leaveAfter is after how many packets, one behind the other, that came elsewhere a window is left, and how many make one
	// where there are maxWindows.
	leaveAfter = 32
	// shareOf is over how many packets the share of a window is smoothed.
	shareOf = 32
)

// track says which counters of a sender have come by one leg.
//
// All who have the key can send in a sender's name. So one packet with a counter that is far from all that
// has come moves nothing: it is not taken, and a second one near it makes a window there, beside the one that
// there is. Each goes on as long as packets come in it. A sender of which many packets were lost is followed
// so, too, at the price of one more.
//
//	0 ── floor ── [window: first ─ next] ─── aside ─── [window] ─── ahead ───► counters
//
// What was taken is in a window, or below floor, always: so nothing is taken twice.
//
// Who has no key can play back what the sender has sent, from other places, before and between what it sends now. But nothing of
// that is ahead of the sender. So what is ahead of all windows is followed by itself, and nothing that comes elsewhere keeps
// it from becoming a window.
type track struct {
	floor   uint64    // counters below count as come
	windows []*window // lowest first, none near another
	hits    uint64    // packets that were taken, or bore out a place
	ahead   place     // above all windows, the highest that came
	aside   place     // elsewhere, in a row
}

// place is where counters have come that are far from all windows, each above the one before and near it.
type place struct {
	last uint64
	n    int // how many there were
}

// add notes a counter, and reports whether it bears the place out. One below the last, or the same again, does not.
func (p *place) add(c uint64) bool {
	switch near := p.near(c); {
	case near && c > p.last:
		p.last = c
		p.n++
		return true
	case !near:
		p.last, p.n = c, 1
	}
	return false
}

func (p *place) near(c uint64) bool {
	return p.n > 0 && c+nearPackets > p.last && c < p.last+nearPackets
}

// find returns the window that a counter is in or near, or nil, and whether it has come.
func (t *track) find(c uint64) (w *window, come bool) {
	if c < t.floor {
		return nil, true
	}
	for _, w := range t.windows {
		if c+nearPackets >= w.first && c < w.next+nearPackets {
			return w, w.seen(c)
		}
	}
	return nil, false
}

// seen reports whether a counter has come, or is too old to say.
func (t *track) seen(c uint64) bool {
	_, come := t.find(c)
	return come
}

// take notes a packet that verifies and was not seen, and reports whether it is taken.
func (t *track) take(c uint64) bool {
	w, _ := t.find(c)
	if w == nil {
		if len(t.windows) > 0 && !t.confirmed(c) {
			return false
		}
		w = t.open(c)
	}
	w.add(c)
	t.hits++
	t.aside.n = 0
	w.hit = t.hits
	for _, x := range t.windows {
		x.share -= x.share / shareOf
	}
	w.share++
	for low := t.windows[0]; t.hits-low.hit >= leaveAfter; low = t.windows[0] {
		t.leave()
	}
	t.join()
	return true
}

// confirmed reports whether a counter far from all windows makes one: others came near it, one where there is room
// for a window, and as many as it takes to leave one where there is none.
func (t *track) confirmed(c uint64) bool {
	at := &t.aside
	if t.isAhead(c) && (c > t.ahead.last || t.ahead.near(c)) {
		at = &t.ahead
	}
	if !at.add(c) {
		return false
	}
	if low := t.windows[0]; len(t.windows) == maxWindows && low.next <= c && t.hits-low.hit >= leaveAfter {
		t.leave()
	}
	if len(t.windows) < maxWindows || at.n >= leaveAfter {
		*at = place{}
		return true
	}
	t.hits++
	return false
}

// isAhead reports whether a counter is above all windows.
func (t *track) isAhead(c uint64) bool { return c >= t.windows[len(t.windows)-1].next }

// open makes a window for a counter.
func (t *track) open(c uint64) *window {
	if len(t.windows) == maxWindows {
		t.makeRoom(c)
	}
	w := &window{first: c, next: c}
	at, _ := slices.BinarySearchFunc(t.windows, c, func(w *window, c uint64) int {
		if w.first < c {
			return -1
		}
		return 1
	})
	t.windows = slices.Insert(t.windows, at, w)
	return w
}

// makeRoom gives one window up for one at c: the lowest, or what is between the upper two. For one that is ahead it is that of which fewer
// came of late: the sender's own is in one, if it is heard at all, and must not be given up for what others send now and then.
func (t *track) makeRoom(c uint64) {
	low := t.windows[0].next <= c
	if t.isAhead(c) {
		low = t.windows[0].share <= t.windows[1].share
	}
	if low {
		t.leave()
		return
	}
	t.merge(maxWindows - 2)
}

// leave drops the lowest window: what it has, and all below, counts as come.
func (t *track) leave() {
	t.floor = t.windows[0].next
	t.windows = slices.Delete(t.windows, 0, 1)
}

// join makes one of windows that have come near each other.
func (t *track) join() {
	for i := 0; i+1 < len(t.windows); {
		if t.windows[i].next+2*nearPackets < t.windows[i+1].first {
			i++
			continue
		}
		t.merge(i)
	}
}

// merge makes one of window i and the next: what is between them may still come, as far as it is remembered.
func (t *track) merge(i int) {
	low, high := t.windows[i], t.windows[i+1]
	high.learn(low)
	t.windows = slices.Delete(t.windows, i, i+1)
}

// window says which counters have come of those near each other: in it, those below next-windowPackets count as come.
type window struct {
	first, next uint64  // the lowest, and above all, that have come
	hit         uint64  // track.hits when the last came
	share       float64 // how many of the last shareOf packets that were taken came in it, smoothed
	bits        [windowPackets / 64]uint64
}

// seen reports whether a counter has come, or is too old to say.
func (w *window) seen(c uint64) bool {
	if c >= w.next {
		return false
	}
	if c+windowPackets < w.next {
		return true
	}
	i := c % windowPackets
	return w.bits[i/64]&(1<<(i%64)) != 0
}

// add notes that a counter has come, which was not seen.
func (w *window) add(c uint64) {
	w.first = min(w.first, c)
	if c >= w.next {
		w.forget(w.next, c)
		w.next = c + 1
	}
	i := c % windowPackets
	w.bits[i/64] |= 1 << (i % 64)
}

// learn takes over what has come in a lower window.
func (w *window) learn(low *window) {
	for c := max(low.first, w.next-min(w.next, windowPackets)); c < low.next; c++ {
		if low.seen(c) {
			w.add(c)
		}
	}
	w.first, w.hit, w.share = min(w.first, low.first), max(w.hit, low.hit), w.share+low.share
}

// forget clears what the counters from lo up to hi take the place of.
func (w *window) forget(lo, hi uint64) {
	if hi-lo >= windowPackets {
		clear(w.bits[:])
		return
	}
	for c := lo; c < hi; {
		i := c % windowPackets
		if i%64 == 0 && hi-c >= 64 {
			w.bits[i/64] = 0
			c += 64
			continue
		}
		w.bits[i/64] &^= 1 << (i % 64)
		c++
	}
	i := hi % windowPackets
	w.bits[i/64] &^= 1 << (i % 64)
}

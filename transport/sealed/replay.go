package sealed

// windowPackets is how many counters of a sender are remembered, on each leg: a packet that
// comes behind so many later ones is refused, and is missing.
const windowPackets = 16384

// window says which counters of a sender have come: those below next-windowPackets count as
// come. The zero value has seen none.
type window struct {
	next uint64 // above all that have come
	bits [windowPackets / 64]uint64
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
	if c >= w.next {
		w.forget(w.next, c)
		w.next = c + 1
	}
	i := c % windowPackets
	w.bits[i/64] |= 1 << (i % 64)
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

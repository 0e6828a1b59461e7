package sealed

const (
	// windowPackets is the number of remembered counters of a sender on each leg: a packet that arrives after that many
	// later ones is refused, and is missing.
	windowPackets = 16384
	// quietFor is the number of seconds for which a sender's counters must not have grown before the window may restart.
	quietFor = 2
)

// arrival is the contents of a packet's header, and its arrival time.
type arrival struct {
	counter uint64
	stated  int64 // the time in it, extended to 64 bits
	at      int64 // time of arrival, in seconds of opener.elapsed
}

// window records which packets of a sender have arrived on one leg, by the highest windowPackets counters.
//
//	          what is lower counts as come      bits      what is higher is new
//	counters: ────────────────────────────────┤────────├──────────────────────► next
//
// The counters and times of a sender only grow. So a replayed packet is never above those that the sender sends, and
// does not block them. But a sender that continues from an old copy of its memory (a virtual machine restored to a
// snapshot) repeats its counters, and another key holder can use higher ones. A packet with a later time than all
// accepted ones is new, whatever its counter: it restarts the window, if no higher counter has arrived for a while.
type window struct {
	next   uint64 // one more than the highest counter that has arrived
	newest int64  // the latest time in a packet
	from   int64  // packets with an earlier time count as arrived: the window has restarted since
	grown  int64  // arrival of the highest counter, in seconds of opener.elapsed
	bits   [windowPackets / 64]uint64
}

// seen reports whether a packet counts as arrived.
func (w *window) seen(a arrival) bool {
	return a.stated < w.from || w.has(a.counter) && !w.begins(a)
}

// record records a verified packet for which seen was false.
func (w *window) record(a arrival) {
	if w.has(a.counter) {
		*w = window{from: w.newest + 1}
	}
	if a.counter >= w.next {
		w.grown = a.at
	}
	w.add(a.counter)
	w.newest = max(w.newest, a.stated)
}

// begins reports whether a packet restarts the window.
func (w *window) begins(a arrival) bool { return a.stated > w.newest && a.at > w.grown+quietFor }

// has reports whether a counter has arrived, or is too low to know.
func (w *window) has(c uint64) bool {
	if c >= w.next {
		return false
	}
	if c+windowPackets < w.next {
		return true
	}
	i := c % windowPackets
	return w.bits[i/64]&(1<<(i%64)) != 0
}

// add records a counter.
func (w *window) add(c uint64) {
	if c >= w.next {
		w.forget(w.next, c)
		w.next = c + 1
	}
	i := c % windowPackets
	w.bits[i/64] |= 1 << (i % 64)
}

// forget clears the bits that the counters from lo up to hi reuse.
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

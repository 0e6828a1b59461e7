package reliable

// Loans are packets that stay where the fabric has put them, while they wait for a
// missing one: to copy all that comes behind a loss would cost more than to repair
// it. A receiver without, or that may keep no more, copies them into its window.
type Loans interface {
	// Keep lets the packet that Handle is being called with stay until Return. It
	// reports false when that cannot be. At most once in a Handle.
	Keep() (loan uint32, ok bool)
	// Packet returns the bytes of a kept packet.
	Packet(loan uint32) []byte
	// Return says that a kept packet is not needed any more.
	Return(loan uint32)
}

// hold keeps packet seq, which Handle is being called with as b, until it is its turn: where it lies, or in a slot.
// Readers of the output read slots only, in their own time; and what waits for a history, or for state, may wait long.
func (st *Stream) hold(now Instant, seq uint64, b []byte) (entry, bool) {
	if loans := st.r.cfg.Loans; loans != nil && !st.win.keeps && !st.win.history.open && !st.win.state.waits() {
		if loan, ok := loans.Keep(); ok {
			return entry{state: entryLent, slot: loan}, true
		}
	}
	slot, ok := st.put(now, seq, b)
	return entry{state: entryHeld, slot: slot, size: uint16(len(b))}, ok
}

// packet returns the bytes of a packet that is held or lent.
func (st *Stream) packet(e *entry) []byte {
	if e.state == entryLent {
		return st.r.cfg.Loans.Packet(e.slot)
	}
	return st.win.slots.Bytes(e.slot, int(e.size))
}

// drop gives up a packet that is held or lent.
func (st *Stream) drop(e *entry) {
	if e.state == entryLent {
		st.r.cfg.Loans.Return(e.slot)
	} else {
		st.win.slots.Release(e.slot)
	}
	e.state = entryEmpty
}

// settle moves the next packet, which is lent, into a slot, because the output keeps
// packets now and did not when this one came. It reports false when it holds all slots.
func (st *Stream) settle(now Instant, e *entry) bool {
	b := st.packet(e)
	slot, ok := st.put(now, st.next, b)
	if !ok {
		return false
	}
	st.r.cfg.Loans.Return(e.slot)
	e.state, e.slot, e.size = entryHeld, slot, uint16(len(b))
	return true
}

// returnLoans is for a stream that ends before its time.
func (st *Stream) returnLoans() {
	for seq := st.next; seq < st.tracked; seq++ {
		if e := st.win.entries.at(seq); e.state == entryLent {
			st.drop(e)
		}
	}
}

package reliable

// Loans are packets that stay in the fabric's memory while they wait for a missing packet: copying everything behind a
// loss would cost more than the repair. A receiver without Loans, or at their limit, copies packets into its window.
type Loans interface {
	// Keep keeps the packet that Handle is processing until Return. It reports false when that is impossible. It is called
	// at most once per Handle.
	Keep() (loan uint32, ok bool)
	// Packet returns the bytes of a kept packet.
	Packet(loan uint32) []byte
	// Return releases a kept packet.
	Return(loan uint32)
}

// hold keeps packet seq, which Handle is processing as b, until its turn: as a loan, or in a slot. It uses a slot where
// readers of the output read packets later, or where a history or state may delay packets for long.
func (st *Stream) hold(now Instant, seq uint64, b []byte) (entry, bool) {
	if loans := st.r.cfg.Loans; loans != nil && !st.win.keeps && !st.win.history.open && !st.win.state.waits() {
		if loan, ok := loans.Keep(); ok {
			return entry{state: entryLent, slot: loan}, true
		}
	}
	slot, ok := st.put(now, seq, b)
	return entry{state: entryHeld, slot: slot, size: uint16(len(b))}, ok
}

// packet returns the bytes of a held or lent packet.
func (st *Stream) packet(e *entry) []byte {
	if e.state == entryLent {
		return st.r.cfg.Loans.Packet(e.slot)
	}
	return st.win.slots.Bytes(e.slot, int(e.size))
}

// drop releases a held or lent packet.
func (st *Stream) drop(e *entry) {
	if e.state == entryLent {
		st.r.cfg.Loans.Return(e.slot)
	} else {
		st.win.slots.Release(e.slot)
	}
	e.state = entryEmpty
}

// settle moves the next packet, which is lent, into a slot, because the output began to keep packets after it arrived.
// It reports false when the output holds all slots.
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

// returnLoans returns the loans of a stream that ends early.
func (st *Stream) returnLoans() {
	for seq := st.next; seq < st.tracked; seq++ {
		if e := st.win.entries.at(seq); e.state == entryLent {
			st.drop(e)
		}
	}
}

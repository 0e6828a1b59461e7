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

// hold keeps b, which Handle is being called with, until it is its turn: where it
// lies, or in a slot. Cursors read slots only, at their own pace.
func (st *Stream) hold(b []byte) (entry, bool) {
	if loans := st.r.cfg.Loans; loans != nil && st.log == nil {
		if loan, ok := loans.Keep(); ok {
			return entry{state: entryLent, slot: loan}, true
		}
	}
	slot, ok := st.put(b)
	return entry{state: entryHeld, slot: slot, size: uint16(len(b))}, ok
}

// packet returns the bytes of a packet that is held or lent.
func (st *Stream) packet(e *entry) []byte {
	if e.state == entryLent {
		return st.r.cfg.Loans.Packet(e.slot)
	}
	return st.slots.Bytes(e.slot, int(e.size))
}

// drop is for a packet that is held or lent, and was delivered to all but cursors.
func (st *Stream) drop(e *entry) {
	if e.state == entryLent {
		st.r.cfg.Loans.Return(e.slot)
	} else {
		st.slots.Release(e.slot)
	}
	e.state = entryEmpty
}

// settle copies what is lent into slots, for a first cursor. Each packet of the
// window has one: without cursors nobody else does.
func (st *Stream) settle() {
	for seq := st.next; seq < st.tracked; seq++ {
		e := &st.entries[seq&st.mask]
		if e.state != entryLent {
			continue
		}
		b := st.packet(e)
		slot, _ := st.slots.Put(b)
		st.r.cfg.Loans.Return(e.slot)
		e.state, e.slot, e.size = entryHeld, slot, uint16(len(b))
	}
}

// returnLoans is for a stream that ends before its time.
func (st *Stream) returnLoans() {
	for seq := st.next; seq < st.tracked; seq++ {
		if e := &st.entries[seq&st.mask]; e.state == entryLent {
			st.drop(e)
		}
	}
}

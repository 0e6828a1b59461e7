package reliable

// The receiver's side of flow control: how much room it promises.

// limit is the first sequence there is no room for: what fits the window that
// readers leave free, and not more beyond what was read than waits in the
// fabric's receive buffer without loss, which all active streams share. docs/protocol.md §7.3.
func (st *Stream) limit() uint64 {
	unread, held := st.out.Backlog()
	backlog := uint64(unread + held)
	window := st.next
	if backlog < st.win.span {
		window += st.win.span - backlog
	}
	return max(st.next, min(window, st.high+st.share()))
}

// unread is how many packets readers that hold the stream up have still to read.
func (st *Stream) unread() uint64 {
	unread, _ := st.out.Backlog()
	return uint64(unread)
}

// share is this stream's part of what the fabric's receive buffer holds.
func (st *Stream) share() uint64 {
	return uint64(max(8, st.r.cfg.Capacity/max(1, st.r.active)))
}

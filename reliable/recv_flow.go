package reliable

// limit is the first sequence for which there is no room. Room ends with the window, of which readers still use a part,
// and with the stream's share of the fabric's receive buffer, which begins at high. docs/protocol §7.3.
func (st *Stream) limit(now Instant) uint64 {
	unread, held := st.out.Backlog()
	backlog := uint64(unread + held)
	window := st.next
	if backlog < st.win.span {
		window += st.win.span - backlog
	}
	return max(st.next, min(window, st.high+st.share(now)))
}

// unread is how many packets readers that hold the stream up have not read.
func (st *Stream) unread() uint64 {
	unread, _ := st.out.Backlog()
	return uint64(unread)
}

// share is the stream's share of the fabric's receive buffer, in packets.
func (st *Stream) share(now Instant) uint64 {
	return st.r.cfg.Buffer.promise(st.report.share.bufferShare, now)
}

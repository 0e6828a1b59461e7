package reliable

// The receiver's side of flow control: how much room it promises.

// limit is the first sequence there is no room for: what fits the window that readers leave free, and not more beyond
// what was read than waits in the fabric's receive buffer without loss, which streams share. docs/protocol §7.3.
func (st *Stream) limit(now Instant) uint64 {
	unread, held := st.out.Backlog()
	backlog := uint64(unread + held)
	window := st.next
	if backlog < st.win.span {
		window += st.win.span - backlog
	}
	return max(st.next, min(window, st.high+st.share(now)))
}

// unread is how many packets readers that hold the stream up have still to read.
func (st *Stream) unread() uint64 {
	unread, _ := st.out.Backlog()
	return uint64(unread)
}

// share is this stream's part of what the fabric's receive buffer holds.
func (st *Stream) share(now Instant) uint64 {
	return st.r.cfg.Buffer.promise(st.report.share.bufferShare, now)
}

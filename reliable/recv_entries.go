package reliable

// entries holds what a receiver knows of each packet from Stream.next up to Stream.tracked, by sequence. It grows as
// needed: while few packets wait, it stays in the processor's cache, however large the window is.
type entries []entry // length is a power of two, or 0

// firstEntries is the initial number of entries.
const firstEntries = 32

func (x entries) at(seq uint64) *entry { return &x[seq&uint64(len(x)-1)] }

// reach makes room for the entries from low up to end. Entries from low up to tracked keep their values, but may move:
// pointers that at returned before become invalid.
func (x *entries) reach(low, tracked, end uint64) {
	if end-low <= uint64(len(*x)) {
		return
	}
	more := make(entries, max(firstEntries, nextPow2(int(end-low))))
	for seq := low; seq < tracked; seq++ {
		*more.at(seq) = *x.at(seq)
	}
	*x = more
}

package reliable

// entries are what a receiver knows of each packet from Stream.next to below Stream.tracked, by sequence. They take
// memory as they become more: where few packets wait they stay in the processor's cache, however large the window is.
type entries []entry // a power of two of them, or none

// firstEntries is how many there is memory for at first.
const firstEntries = 32

func (x entries) at(seq uint64) *entry { return &x[seq&uint64(len(x)-1)] }

// reach makes room for those from low to below end. Those from low to below tracked keep what they say, but may lie at
// another place: pointers that at has returned before are not to be used any more.
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

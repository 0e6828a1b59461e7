package peer

// maxProbes is the most of one row. A tally has a bit for each.
const maxProbes = 4096

// Tally is what came of a row of probes.
type Tally struct {
	Received   int    `json:"received"`   // different ones
	Duplicates int    `json:"duplicates"` // that had come before
	Reordered  int    `json:"reordered"`  // that came behind one with a higher number
	Merged     int    `json:"merged"`     // that came in one piece with others (GRO)
	Largest    int    `json:"largest"`    // payload in bytes
	TTL        int    `json:"ttl"`        // the lowest that one came with; 0: not known
	Latest     uint32 `json:"latest"`     // the highest number

	seen [maxProbes / 64]uint64
}

// clean bounds what the other side says of a row.
func (t Tally) clean() Tally {
	for _, n := range []*int{&t.Received, &t.Duplicates, &t.Reordered, &t.Merged} {
		*n = min(max(*n, 0), maxProbes)
	}
	t.Largest, t.TTL = min(max(t.Largest, 0), maxSize), min(max(t.TTL, 0), 255)
	return t
}

// arrival is one datagram as the socket got it.
type arrival struct {
	Size   int  // payload in bytes
	TTL    int  // 0: not known
	Merged bool // the kernel had merged it with others
}

// add counts a probe. Numbers beyond maxProbes are none of ours.
func (t *Tally) add(number uint32, a arrival) {
	if number >= maxProbes {
		return
	}
	if a.TTL > 0 && (t.TTL == 0 || a.TTL < t.TTL) {
		t.TTL = a.TTL
	}
	t.Largest = max(t.Largest, a.Size)
	word, bit := number/64, uint64(1)<<(number%64)
	if t.seen[word]&bit != 0 {
		t.Duplicates++
		return
	}
	if t.Received > 0 && number < t.Latest {
		t.Reordered++
	}
	t.seen[word] |= bit
	t.Received++
	t.Latest = max(t.Latest, number)
	if a.Merged {
		t.Merged++
	}
}

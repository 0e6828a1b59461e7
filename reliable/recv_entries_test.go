package reliable

import "testing"

// Entries keep their content while others are added and removed, at any position in the stream, and the memory follows
// the maximum in use.
func TestEntriesReach(t *testing.T) {
	for _, c := range []struct {
		name  string
		start uint64
		limit uint64 // maximum of entries in use
		want  int    // memory, in entries
	}{
		{"few", 0, 3, firstEntries},
		{"as many as fit at first", 5, firstEntries, firstEntries},
		{"one more", 5, firstEntries + 1, 2 * firstEntries},
		{"many", 1<<40 + 7, 1000, 1024},
		{"near the highest sequence", ^uint64(0) - 20_000, 700, 1024},
	} {
		var x entries
		low, tracked := c.start, c.start
		for i := range 4000 {
			step := 1 + uint64(i)%min(5, c.limit)
			if i%500 == 499 {
				low = tracked // all were delivered
			}
			if tracked+step-low > c.limit {
				low = tracked + step - c.limit
			}
			x.reach(low, tracked, tracked+step)
			for range step {
				*x.at(tracked) = entry{slot: uint32(tracked), since: upTime(tracked)}
				tracked++
			}
			for seq := low; seq != tracked; seq++ {
				if e := x.at(seq); e.slot != uint32(seq) || e.since != upTime(seq) {
					t.Fatalf("%s: entry %d contains that of %d", c.name, seq, e.slot)
				}
			}
		}
		if len(x) != c.want {
			t.Errorf("%s: memory for %d, want %d", c.name, len(x), c.want)
		}
	}
	var x entries
	x.reach(10, 10, 10+1000)
	if len(x) != 1024 {
		t.Errorf("memory for %d entries after 1000 at once", len(x))
	}
}

package reliable

import "testing"

// Entries stay what they are while more come and go, at any place in the stream, and take memory for what there is at most.
func TestEntriesReach(t *testing.T) {
	for _, c := range []struct {
		name  string
		start uint64
		most  uint64 // entries at a time
		want  int    // memory, in entries
	}{
		{"few", 0, 3, firstEntries},
		{"as many as there is memory for", 5, firstEntries, firstEntries},
		{"one more", 5, firstEntries + 1, 2 * firstEntries},
		{"many", 1<<40 + 7, 1000, 1024},
		{"at the end of the numbers", ^uint64(0) - 20_000, 700, 1024},
	} {
		var x entries
		low, tracked := c.start, c.start
		for i := range 4000 {
			step := 1 + uint64(i)%min(5, c.most)
			if i%500 == 499 {
				low = tracked // all were delivered
			}
			if tracked+step-low > c.most {
				low = tracked + step - c.most
			}
			x.reach(low, tracked, tracked+step)
			for range step {
				*x.at(tracked) = entry{slot: uint32(tracked), since: upTime(tracked)}
				tracked++
			}
			for seq := low; seq != tracked; seq++ {
				if e := x.at(seq); e.slot != uint32(seq) || e.since != upTime(seq) {
					t.Fatalf("%s: entry %d is that of %d", c.name, seq, e.slot)
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
		t.Errorf("memory for %d where 1000 come at once", len(x))
	}
}

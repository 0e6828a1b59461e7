package engine

import (
	"slices"
	"testing"
	"time"
)

func TestBackoffReporter(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name     string
		at       []time.Duration
		reported []int // indices
		over     bool
	}{
		{"never", nil, nil, false},
		{"short", []time.Duration{0, s / 2, s - 1}, nil, false},
		{"once", []time.Duration{s, s + 1, 2*s - 1}, []int{0}, true},
		{"doubling", []time.Duration{s, 2 * s, 3 * s, 4 * s, 7 * s, 8 * s, 9 * s}, []int{0, 1, 3, 5}, true},
		{"late", []time.Duration{5 * s, 6 * s, 8 * s}, []int{0, 2}, true},
		{"very late", []time.Duration{time.Hour}, []int{0}, true},
	} {
		var x backoffReporter
		for range 2 { // again after the end
			var reported []int
			for i, d := range c.at {
				if x.due(d) {
					reported = append(reported, i)
				}
			}
			if over := x.over(); !slices.Equal(reported, c.reported) || over != c.over {
				t.Errorf("%s: reported at %v, want %v; over %v, want %v", c.name, reported, c.reported, over, c.over)
			}
		}
	}
}

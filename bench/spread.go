package bench

import "slices"

// Spread is what several runs gave.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// spreadOf sums up values. Of an even number the lower of the two in the middle
// is the median: a value that was measured.
func spreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	v := slices.Sorted(slices.Values(values))
	return Spread{Min: v[0], Median: v[(len(v)-1)/2], Max: v[len(v)-1]}
}

// ratios divides value by value: run i of one by run i of the other, which was measured next to it.
func ratios(a, b []float64) (all []float64) {
	for i := range min(len(a), len(b)) {
		if b[i] > 0 {
			all = append(all, a[i]/b[i])
		}
	}
	return all
}

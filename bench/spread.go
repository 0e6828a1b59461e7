package bench

import "slices"

// Spread summarizes several runs.
type Spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
}

// spreadOf summarizes values. The median of an even number is the lower of the two middle values,
// so that it is a measured value.
func spreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	v := slices.Sorted(slices.Values(values))
	return Spread{Min: v[0], Median: v[(len(v)-1)/2], Max: v[len(v)-1]}
}

// ratios divides run i of a by run i of b, which were measured next to each other.
func ratios(a, b []float64) (all []float64) {
	for i := range min(len(a), len(b)) {
		if b[i] > 0 {
			all = append(all, a[i]/b[i])
		}
	}
	return all
}

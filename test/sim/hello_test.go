package sim

import "testing"

func TestHellos(t *testing.T) {
	n := uint64(300)
	if testing.Short() {
		n = 50
	}
	for seed := range n {
		if err := runHellos(seed); err != nil {
			t.Error(err)
		}
	}
}

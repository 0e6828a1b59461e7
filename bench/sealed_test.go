package bench

import (
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// With keys and losses both are measured once more without losses: the share kept with keys is reported along with the
// share kept without.
func TestSealedLoss(t *testing.T) {
	testenv.Slow(t)
	b := newBench(t, "udp")
	b.Sealed, b.Loss, b.Baselines = true, 0.01, nil
	result, err := b.Run(t.Context(), "throughput")
	if err != nil {
		t.Fatal(err)
	}
	m := decoded(t, result)
	for _, key := range []string{"ratio_lossless", "ratio_sealed", "ratio_sealed-lossless"} {
		positive(t, m, key)
	}
	ratio := result.Contest().Ratio(keySealedLossless).Value
	if want := result.Contest().Rate(keySealed) / result.Contest().Rate(keySealedLossless); ratio != want {
		t.Errorf("kept %v, want %v", ratio, want)
	}
}

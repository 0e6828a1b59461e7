package bench

import (
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// Batches are compared with single messages, and with baselines.
func TestBatches(t *testing.T) {
	testenv.Slow(t)
	b := newBench(t, "mem")
	b.Batch, b.Seconds, b.CheckAll, b.Baselines = 16, 0.05, true, []string{contenders.Channel}
	result, err := b.Run(t.Context(), "throughput")
	if err != nil {
		t.Fatal(err)
	}
	m := decoded(t, result)
	for _, key := range []string{keyOurs, keyBatches} {
		positive(t, m, key, "msgs_per_s", "median")
	}
	for _, ratio := range []string{"ratio_batches", "ratio_batches_channel"} {
		positive(t, m, ratio)
	}
	for want, change := range map[string]func(*Settings){
		"-batch 12 must be a power of two": func(s *Settings) { s.Batch = 12 },
		"-batch -1 must be":                func(s *Settings) { s.Batch = -1 },
		"-batch 2048 must be":              func(s *Settings) { s.Batch = 2048 },
		"leave out -topics":                func(s *Settings) { s.Batch, s.Topics = 2, 3 },
	} {
		s := Defaults("mem")
		change(&s)
		if err := s.Check("throughput", contenders.All()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check fails with %v, want %s", err, want)
		}
	}
}

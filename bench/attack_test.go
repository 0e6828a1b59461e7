package bench

import (
	"strings"
	"testing"
)

// A stream with keys runs while an attacker sends what he likes, and once more beside who sends nothing: the subscriber has
// everything, exactly (outcome.check), and each is measured beside the undisturbed one.
func TestAttack(t *testing.T) {
	b := newBench(t, "udp")
	b.Attack, b.Publishers, b.Seconds = true, b.Publishers[:1], 1
	if err := b.Settings.Check("throughput", b.Contenders); err != nil {
		t.Fatal(err)
	}
	result, err := longEnough(t, b)
	if err != nil {
		t.Fatal(err)
	}
	m, p := decoded(t, result), result.Contest()
	for _, key := range []string{"ratio_attacked", "ratio_beside-spin", "ratio_attacked_beside-spin"} {
		positive(t, m, key)
	}
	if p.Value(keyAttacked, "hostile_per_s") == 0 || p.Value(keySpun, "hostile_per_s") != 0 || p.Value(keySealed, "hostile_per_s") != 0 {
		t.Error("who was to be attacked was not, or another one was")
	}
	if n := p.Value(keyAttacked, "lost"); n != 0 {
		t.Errorf("%v messages are lost", n)
	}
	var text strings.Builder
	if err := Write(&text, result, FormatText); err != nil || !strings.Contains(text.String(), "one attacker where it says so") || !strings.Contains(text.String(), "of sealed") {
		t.Errorf("%v in %s", err, text.String())
	}
}

// With keys and losses both are measured once more without losses: what is kept with keys is told beside what is without.
func TestSealedLoss(t *testing.T) {
	b := newBench(t, "udp")
	b.Sealed, b.Loss, b.Publishers, b.Baselines = true, 0.01, b.Publishers[:1], nil
	result, err := b.Run(t.Context(), "throughput")
	if err != nil {
		t.Fatal(err)
	}
	m := decoded(t, result)
	for _, key := range []string{"ratio_lossless", "ratio_sealed", "ratio_sealed-lossless"} {
		positive(t, m, key)
	}
	kept := result.Contest().Ratio(keySealedLossless).Value
	if want := result.Contest().Rate(keySealed) / result.Contest().Rate(keySealedLossless); kept != want {
		t.Errorf("kept %v, want %v", kept, want)
	}
}

package bench

import (
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// Others join with the publisher's state while a subscriber's latency is measured, or are
// there all the time: the subscriber has everything, and the table shows it all.
func TestJoiners(t *testing.T) {
	testenv.Slow(t)
	onLinux(t)
	b := newBench(t, "udp")
	b.Joiners, b.Rate, b.Seconds = 3, 1000, 0.5
	if err := b.Settings.Check("latency", b.Contenders); err != nil {
		t.Fatal(err)
	}
	result, err := b.Run(t.Context(), "latency")
	if err != nil {
		t.Fatal(err)
	}
	m, p := decoded(t, result), result.Contest()
	for _, key := range []string{"ratio_p99_stay", "ratio_p99_joins", "ratio_p99_joins_stay"} {
		positive(t, m, key)
	}
	if n := p.Value(keyJoins, "joins"); int(n)%3 != 0 || p.Value(keyOurs, "joins")+p.Value(keyStay, "joins") > 0 {
		t.Errorf("%v joins, in waves of 3", n)
	}
	for _, key := range []string{keyOurs, keyStay, keyJoins} {
		if n := p.Value(key, "lost"); n != 0 {
			t.Errorf("%s: %v messages are lost", key, n)
		}
	}
	var text strings.Builder
	if err := Write(&text, result, FormatText); err != nil || !strings.Contains(text.String(), "3 more that stay or join") || !strings.Contains(text.String(), "of stay") {
		t.Errorf("%v in %s", err, text.String())
	}
}

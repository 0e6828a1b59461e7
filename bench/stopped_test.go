package bench

import (
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// One of two subscriber processes is stopped while messages are published, under each
// strategy: the other has everything where the publisher waits for it, the one that was
// stopped says exactly what it lacks (outcome.check), and each is measured beside the same
// with nobody stopped.
func TestStoppedSubscribers(t *testing.T) {
	testenv.Slow(t)
	onLinux(t)
	b := newBench(t, "udp")
	b.Subs, b.Stopped = 2, 1
	if err := b.Settings.Check("throughput", b.Contenders); err != nil {
		t.Fatal(err)
	}
	result, err := b.Run(t.Context(), "throughput")
	if err != nil {
		t.Fatal(err)
	}
	m := decoded(t, result)
	for _, st := range strategies {
		key := st.key + stoppedSuffix
		positive(t, m, key, "msgs_per_s", "median")
		positive(t, m, "ratio_"+key)
		if by := ratioOf(key).by; !result.Contest().Row(by, "msgs_per_s").Has() {
			t.Errorf("%s is measured beside %q", key, by)
		}
	}
	// With the quorum the one that is stopped may be ahead of the other before it is.
	for _, key := range []string{"min-stopped", "release-stopped"} {
		if n := result.Contest().Value(key, "lost"); n != 0 {
			t.Errorf("%s: subscribers that were not stopped lost %v messages", key, n)
		}
	}
	var text strings.Builder
	if err := Write(&text, result, FormatText); err != nil || !strings.Contains(text.String(), "lost by the stopped") || !strings.Contains(text.String(), "1 of them stopped") {
		t.Errorf("%v in %s", err, text.String())
	}
}

// What does not wait for all is limited, beside what does; who leaves the slowest behind on
// purpose may lose.
func TestStoppedStrategies(t *testing.T) {
	b := newBench(t, "udp")
	b.Subs, b.Stopped, b.full = 4, 1, 1e6
	for _, c := range b.contestants() {
		spec, err := b.spec(c, worker.LoadFull)
		if err != nil {
			t.Fatal(err)
		}
		stopped, name := strings.HasSuffix(c.key, stoppedSuffix), strings.TrimSuffix(c.key, stoppedSuffix)
		if (spec.Flow.Stopped == 1) != stopped || (spec.Flow.Rate > 0) != (name == "none" || name == "max") || mayLose(c.key) != (c.key == "quorum") {
			t.Errorf("%s: %+v", c.key, spec.Flow)
		}
		if want := map[string]string{"none": "none", "max": "max", "quorum": "quorum:3"}[name]; spec.Flow.Control != want {
			t.Errorf("%s: flow control %q, want %q", c.key, spec.Flow.Control, want)
		}
	}
}

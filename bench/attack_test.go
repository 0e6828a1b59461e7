package bench

import (
	"slices"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/internal/testenv"
)

// A stream with keys runs while an attacker sends what he likes, and once more beside who sends nothing: the subscriber has
// everything, exactly (outcome.check), and each is measured beside the undisturbed one.
func TestAttack(t *testing.T) {
	testenv.Slow(t)
	b := newBench(t, "udp")
	b.Attacker, b.Seconds = AttackerShares, 1
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
	if sent, refused := p.Value(keyAttacked, "hostile_packets"), p.Value(keyAttacked, "refused_packets"); sent == 0 || refused == 0 {
		t.Errorf("%v hostile packets, %v refused", sent, refused)
	}
	var text strings.Builder
	if err := Write(&text, result, FormatText); err != nil || !strings.Contains(text.String(), "one attacker where it says so") || !strings.Contains(text.String(), "of sealed") {
		t.Errorf("%v in %s", err, text.String())
	}
}

// An attacker with a processor for himself leaves the others to publisher and subscribers, in all runs.
func TestAttackApart(t *testing.T) {
	testenv.Slow(t)
	all, err := worker.Processors()
	attacker, attackerErr := processorsOf(worker.RoleAttack)
	others, othersErr := processorsOf(worker.RolePublish)
	b := newBench(t, "udp")
	b.Attacker, b.Seconds = AttackerApart, 1
	checked := b.Settings.Check("throughput", b.Contenders)
	if err != nil || len(all) < 2 {
		for _, err := range []error{attackerErr, othersErr, checked} {
			if err == nil || !strings.Contains(err.Error(), "-attack-apart: ") {
				t.Errorf("with processors %v: %v", all, err)
			}
		}
		return
	}
	if checked != nil {
		t.Fatal(checked)
	}
	if attackerErr != nil || othersErr != nil || !slices.Equal(slices.Concat(others, attacker), all) || len(attacker) != 1 {
		t.Fatalf("of %v the attacker has %v, the others %v: %v, %v", all, attacker, others, attackerErr, othersErr)
	}
	result, err := longEnough(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if p := result.Contest(); p.Ratio(keyAttacked).Value <= 0 || p.Value(keyAttacked, "hostile_per_s") == 0 || p.Value(keyAttacked, "lost") != 0 {
		t.Errorf("%+v", p.Ratio(keyAttacked))
	}
	var text strings.Builder
	if err := Write(&text, result, FormatText); err != nil || !strings.Contains(text.String(), "has a processor for himself") {
		t.Errorf("%v in %s", err, text.String())
	}
	b.Attacker = "elsewhere"
	if err := b.Settings.Check("throughput", b.Contenders); err == nil || !strings.Contains(err.Error(), "shares or apart") {
		t.Errorf("an attacker of an unknown kind: %v", err)
	}
}

// An attack that did not come to somebody, and one of which somebody has believed a packet, are a failed run.
func TestAttackIsChecked(t *testing.T) {
	report := func(refused, believed float64) worker.Report {
		r := worker.Report{Messages: 1, Figures: map[string]float64{"refused": refused, "believed": believed}}
		for _, kind := range refusedKinds {
			r.Figures["refused_"+kind] = 1
		}
		return r
	}
	with := func(r worker.Report, key string, value float64) worker.Report {
		r.Figures[key] = value
		return r
	}
	for name, c := range map[string]struct {
		sent     float64
		pub, sub worker.Report
		want     string
	}{
		"sound":                       {9, report(2, 0), report(3, 0), ""},
		"no attack":                   {0, report(2, 0), report(3, 0), "came to send nothing"},
		"nothing came to publisher":   {9, report(0, 0), report(3, 0), "no hostile packet came to the publisher, of 9"},
		"nothing came to subscriber":  {9, report(2, 0), report(0, 0), "no hostile packet came to subscriber 1"},
		"believed by the publisher":   {9, report(2, 1), report(3, 0), "the publisher has believed 1 hostile packets"},
		"taken again":                 {9, with(report(2, 0), "repairs", 4), with(report(3, 0), "duplicates", 5), "5 packets came twice to subscriber 1, and 4 repairs"},
		"repaired twice":              {9, with(report(2, 0), "repairs", 4), with(report(3, 0), "duplicates", 4), ""},
		"replays are not refused":     {9, report(2, 0), with(report(3, 0), "refused_replayed", 0), "refused none of the hostile packets that are replayed"},
		"believed by the subscriber ": {9, report(2, 0), report(3, 4), "subscriber 1 has believed 4 hostile packets"},
	} {
		o := outcome{spec: worker.Spec{Contender: contenders.Fanfare}, pub: c.pub, subs: []worker.Report{c.sub}}
		o.spec.Attack, o.beside.Figures = worker.AttackPackets, map[string]float64{"hostile_packets": c.sent}
		if err := o.check(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// With keys and losses both are measured once more without losses: what is kept with keys is told beside what is without.
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
	kept := result.Contest().Ratio(keySealedLossless).Value
	if want := result.Contest().Rate(keySealed) / result.Contest().Rate(keySealedLossless); kept != want {
		t.Errorf("kept %v, want %v", kept, want)
	}
}

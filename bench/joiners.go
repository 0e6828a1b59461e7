package bench

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fanfaremq/fanfare/bench/worker"
)

const (
	// keyJoins is Fanfare while others join with the publisher's state, and keyStay while as
	// many are there all the time.
	keyJoins, keyStay = "joins", "stay"
	mostJoiners       = 256
)

// joinVariants are those with subscribers beside the ones that are measured.
func joinVariants() []variant {
	when := func(s *Settings) bool { return s.Joiners > 0 }
	return []variant{
		{keyStay, when, func(s *Settings, w *worker.Spec) { w.Joins = worker.Joins{Subs: s.Joiners, Stay: true} }},
		{keyJoins, when, func(s *Settings, w *worker.Spec) { w.Joins = worker.Joins{Subs: s.Joiners} }},
	}
}

func (s *Settings) checkJoiners() error {
	switch {
	case s.Joiners == 0:
		return nil
	case s.Joiners < 0 || s.Joiners > mostJoiners:
		return fmt.Errorf("-joiners %d must be from 1 to %d", s.Joiners, mostJoiners)
	case s.InProcess():
		return errors.New("-joiners are in a process of their own: use a transport between processes, udp or roce")
	case s.Many() || s.Split:
		return errors.New("-joiners is measured with one publisher on one topic")
	}
	return nil
}

// joinMetrics are of who joins.
var joinMetrics = []metric{
	{"joins", "", asSum, func(o *outcome) float64 { return o.beside.Figures["joins"] }},
	{"join_p50_us", "join-p50-us", asQuantile, func(o *outcome) float64 { return by(o.beside.Figures["join_p50_us"], 1) }},
}

// joinRatios say how much later messages are while others join: beside nobody, and beside
// as many that are there all the time.
func (p *Point) joinRatios() {
	for _, q := range quantiles {
		late := func(key string) Row { return p.Row(key, q.key+"_us") }
		for _, key := range []string{keyStay, keyJoins} {
			p.addRatio(q.key+"_"+key, late(key), late(keyOurs))
		}
		p.addRatio(q.key+"_"+keyJoins+"_"+keyStay, late(keyJoins), late(keyStay))
	}
}

// joinColumns are those of a table with joins.
var joinColumns = join(lateColumns[:len(lateColumns)-1], []column{
	figure("joins", "joins", "%.0f", 1),
	figure("join, p50 ms", "join_p50_us", "%.1f", 1e-3),
	{"p50, p99, p99.9 of ours", false, func(p *Point, who string) string { return joinText(p, who, "") }},
	{"of stay", false, func(p *Point, who string) string { return joinText(p, who, "_"+keyStay) }},
})

func joinText(p *Point, who, beside string) string {
	if !p.Ratio("p50_" + who + beside).Has() {
		return ""
	}
	var all []string
	for _, q := range quantiles {
		if q.key != "p90" {
			all = append(all, fmt.Sprintf("%.2f", p.Ratio(q.key+"_"+who+beside).Value))
		}
	}
	return strings.Join(all, ", ")
}

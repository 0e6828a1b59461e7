package bench

import "fmt"

// maxBaselineLoss is the share of messages that a baseline may lose before its rate is questionable.
const maxBaselineLoss = 0.02

// warning is the reason why the raw baseline's figures, and therefore the ratios to them, should
// not be trusted; otherwise empty.
func (p *Point) warning() string {
	lost := p.Value("raw", "lost_share")
	switch {
	case lost <= maxBaselineLoss:
		return ""
	case p.Row("raw", "p50_us").Has():
		return fmt.Sprintf("raw lost %.0f %% of its messages, which do not count as late, so its latency looks better than it was; measure again at a lower rate", 100*lost)
	}
	return fmt.Sprintf("raw published %s messages/s and lost %.0f %% of them: its receiver was too slow, possibly because other programs used the cores; measure again",
		Short(p.Value("raw", "published_per_s")), 100*lost)
}

// Warnings are reasons why figures should not be trusted, because of the host or of baselines; empty if there are none.
func (r *Result) Warnings() []string {
	list := r.Host.warnings()
	if warning := r.Contest().warning(); warning != "" {
		list = append(list, warning)
	}
	return list
}

// Verdicts report whether ours reaches Settings.Target of each baseline, or of "one" with many topics
// and no baseline, by neighbouring runs; none without a target, or if the runs are incomplete.
func (r *Result) Verdicts() (list []Aim) {
	if r.Settings.Target == 0 || r.Incomplete != "" || r.Scenario != "throughput" {
		return nil
	}
	names := r.Settings.Baselines
	if len(names) == 0 && r.Settings.Many() {
		names = []string{keyOne}
	}
	for _, name := range names {
		ratio, want := r.Contest().Ratio(name).Spread, r.Settings.Target
		list = append(list, Aim{Name: name, Seen: ratio.Median, Want: want, Met: ratio.Median >= want, ratio: ratio})
	}
	return list
}

// Failed is an error that reports a missed target or the number of missed aims.
func (r *Result) Failed() error {
	for _, v := range r.Verdicts() {
		if !v.Met {
			return fmt.Errorf("target missed: %.2f of %s instead of %.2f", v.Seen, v.Name, v.Want)
		}
	}
	if n := len(r.Missed()); n > 0 {
		return fmt.Errorf("%d of %d aims missed", n, len(r.Aims))
	}
	return nil
}

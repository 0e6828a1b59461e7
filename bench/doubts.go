package bench

import "fmt"

// muchLost is the share of messages that a baseline may lose without its rate being in doubt.
const muchLost = 0.02

// doubt says why the raw baseline's figures, and so the ratios to them, should not be
// trusted; it is empty if there is no reason.
func (p *Point) doubt() string {
	lost := p.Value("raw", "lost_share")
	switch {
	case lost <= muchLost:
		return ""
	case p.Row("raw", "p50_us").Has():
		return fmt.Sprintf("raw lost %.0f %% of its messages, which do not count as late: it is better here than it was; measure again, at a lower rate", 100*lost)
	}
	return fmt.Sprintf("raw published %s messages/s and lost %.0f %% of them: its receiver did not keep up, as when other programs use the cores; measure again",
		Short(p.Value("raw", "published_per_s")), 100*lost)
}

// Doubts say why figures should not be trusted: of the host meanwhile, and of baselines.
// They are none if there is no reason.
func (r *Result) Doubts() []string {
	list := r.Host.doubts()
	if doubt := r.Contest().doubt(); doubt != "" {
		list = append(list, doubt)
	}
	return list
}

// Verdicts say whether ours reaches Settings.Target of each baseline, or of one of each where there are
// many and no baseline, by neighbouring runs; none without a target, or when not all runs were made.
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

// Failed is an error that says which target or how many aims are missed.
func (r *Result) Failed() error {
	for _, v := range r.Verdicts() {
		if !v.Met {
			return fmt.Errorf("the target is missed: %.2f of %s, and not %.2f", v.Seen, v.Name, v.Want)
		}
	}
	if n := len(r.Missed()); n > 0 {
		return fmt.Errorf("%d of %d aims are missed", n, len(r.Aims))
	}
	return nil
}

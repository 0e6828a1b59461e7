package bench

import "fmt"

// Aims for what a stopped subscriber makes of the others' figures, where flow control does
// not wait for it.

func stoppedSteps() []aimsStep {
	return []aimsStep{{"throughput", func(s *Settings) { s.Runs, s.Subs, s.Stopped, s.Baselines = min(s.Runs, manyRuns), 4, 1, nil }, func(j *judge, p *Point) {
		for _, st := range strategies {
			if !st.letsGo {
				continue
			}
			key := st.key + stoppedSuffix
			j.least("one of four stopped, flow "+st.key+", of none stopped", p.Ratio(key).Value, 0.9, "", fmt.Sprintf("%s/s, %.0f lost", Short(p.Rate(key)), p.Value(key, "lost")))
		}
	}}}
}

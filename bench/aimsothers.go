package bench

import "fmt"

// Aims for what others make of a subscriber's figures: who joins with state, and who is
// stopped, where flow control does not wait for it.

func joinSteps() []aimsStep {
	return []aimsStep{{"latency", func(s *Settings) { s.Runs, s.Rate, s.Joiners, s.Baselines = min(s.Runs, manyRuns), 5000, 20, nil }, func(j *judge, p *Point) {
		j.most("while 20 join with state, p99 by alone", p.Ratio("p99_"+keyJoins).Value, 2, "",
			fmt.Sprintf("%.3g µs, alone %.3g, with 20 that stay %.3g", p.Value(keyJoins, "p99_us"), p.Value(keyOurs, "p99_us"), p.Value(keyStay, "p99_us")))
	}}}
}

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

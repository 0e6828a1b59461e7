package bench

import "fmt"

// Aims for packets that are sealed or signed.

func protectedSteps() []aimsStep {
	sealedLoss := func(j *judge, p *Point) {
		plain, sealed := p.Ratio("lossless").Value, p.Ratio(keySealedLossless).Value
		j.least("1 % loss with keys: kept, of what is kept without", ratio(sealed, plain), 0.95, "", fmt.Sprintf("kept %.2f, without keys %.2f", sealed, plain))
	}
	return []aimsStep{
		{"throughput", func(s *Settings) { s.Sealed, s.Baselines = true, nil }, func(j *judge, p *Point) {
			j.least("64 bytes with keys, of without", p.Ratio(keySealed).Value, 0.45, "", Short(p.Rate(keySealed))+perS)
		}},
		{"throughput", func(s *Settings) { s.Sealed, s.Size, s.Baselines = true, 1024, nil }, func(j *judge, p *Point) {
			j.least("1 KiB with keys, of without", p.Ratio(keySealed).Value, 0.45, "", Short(p.Value(keySealed, "bytes_per_s"))+"B/s")
		}},
		{"throughput", func(s *Settings) { s.Sealed, s.Loss, s.Baselines = true, 0.01, nil }, sealedLoss},
		{"latency", func(s *Settings) { s.Sealed, s.Baselines = true, nil }, func(j *judge, p *Point) {
			with, without := p.Value(keySealed, "p50_us"), p.Value(keyOurs, "p50_us")
			j.most("p50 with keys, beyond without", with-without, 3, "µs", fmt.Sprintf("%.3g µs, without %.3g", with, without))
		}},
		{"throughput", func(s *Settings) { s.Signed, s.Baselines = true, nil }, func(j *judge, p *Point) {
			j.least("64 bytes, signed", p.Rate(keySigned), 8e6, perS, "not signed "+Short(p.Rate(keyOurs)))
		}},
		{"latency", func(s *Settings) { s.Signed, s.Baselines = true, nil }, func(j *judge, p *Point) {
			with, without := p.Value(keySigned, "p50_us"), p.Value(keyOurs, "p50_us")
			j.most("p50 signed, beyond without", with-without, 150, "µs", fmt.Sprintf("%.3g µs, without %.3g", with, without))
		}},
	}
}

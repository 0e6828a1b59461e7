package bench

import "fmt"

// largeSteps are the aims for messages above what one packet holds, by what is moved of
// messages that just fit one. They need no baseline.
func largeSteps() []aimsStep {
	one := 0.0 // bytes of payload a second
	size := func(n int, seen func(j *judge, payload float64)) aimsStep {
		return aimsStep{"throughput", func(s *Settings) { s.Size, s.Baselines = n, nil }, func(j *judge, p *Point) {
			seen(j, p.Value(keyOurs, "bytes_per_s"))
		}}
	}
	above := func(n int) aimsStep {
		return size(n, func(j *judge, payload float64) {
			j.least(fmt.Sprintf("%d bytes, payload, of 1400 bytes", n), ratio(payload, one), 0.6, "", Short(payload)+"B/s")
		})
	}
	return []aimsStep{size(1400, func(_ *judge, payload float64) { one = payload }), above(1408), above(2000)}
}

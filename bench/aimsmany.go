package bench

import (
	"fmt"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// What is aimed at with many topics, publishers or subscriptions is a share of what one
// of each does in the same run. These steps have fewer runs than the others: there are many.
const manyRuns = 3

// manySteps are the aims of a publisher on many topics, and of many publishers and
// subscriptions.
func manySteps() []aimsStep {
	const shareOfTopics, shareOfPublishers, shareOfSubscriptions = 0.7, 0.6, 0.9
	fewer := func(shape func(*Settings)) func(*Settings) {
		return func(s *Settings) {
			s.Runs = min(s.Runs, manyRuns)
			s.Baselines = nil
			shape(s)
		}
	}
	step := func(name string, want float64, shape func(*Settings)) aimsStep {
		return aimsStep{"throughput", fewer(shape), func(j *judge, p *Point) {
			j.least(name, p.Ratio(keyOne).Value, want, "", p.besideOne())
		}}
	}
	// Beside raw on as many topics, and on one: what of its rate the machine keeps without any protocol.
	topics := func(name string, shape func(*Settings)) aimsStep {
		return aimsStep{"throughput", fewer(func(s *Settings) { s.Baselines = []string{contenders.Raw}; shape(s) }), func(j *judge, p *Point) {
			j.least(name, p.Ratio(keyOne).Value, shareOfTopics, "", p.besideOne()+p.rawKeeps())
		}}
	}
	thousand := aimsStep{"throughput", fewer(func(s *Settings) { s.Topics, s.Baselines = 1000, []string{contenders.Raw} }), func(j *judge, p *Point) {
		own := p.Details[keyOurs].Publisher
		groups := fmt.Sprintf("%.0f groups, %.3g MiB of packet memory", own["groups"], own["memory_bytes"]/mebibyte)
		j.least("1,000 topics in turn, of one", p.Ratio(keyOne).Value, shareOfTopics, "", p.besideOne()+p.rawKeeps())
		j.least("1,000 topics in turn", p.Rate(keyOurs), 10e6, perS, "one "+Short(p.Rate(keyOne))+perS)
		j.most("publisher's memory, many groups", p.Value(keyOurs, "publisher_rss_bytes")/mebibyte, 64, "MiB", groups)
		j.most("publisher's heap, many groups", p.Value(keyOurs, "publisher_heap_bytes")/mebibyte, 64, "MiB", groups)
	}}
	late := aimsStep{"latency", fewer(func(s *Settings) { s.Topics = 1000 }), func(j *judge, p *Point) {
		j.most("1,000 topics, p50 by one", p.Ratio("p50_"+keyOne).Value, 1.3, "", fmt.Sprintf("%.3g µs, one %.3g", p.Value(keyOurs, "p50_us"), p.Value(keyOne, "p50_us")))
	}}
	wildcard := aimsStep{"throughput", fewer(func(s *Settings) { s.Topics, s.Wildcard = 1000, true }), func(j *judge, p *Point) {
		j.least("1,000 topics by a pattern, of by name", p.Ratio(keyWildcard).Value, 0.9, "", Short(p.Rate(keyWildcard))+perS)
	}}
	return []aimsStep{
		topics("16 topics in turn, of one", func(s *Settings) { s.Topics = 16 }),
		thousand,
		topics("10,000 topics in turn, of one", func(s *Settings) { s.Topics = 10_000 }),
		topics("1,000 topics by Zipf's law, of one", func(s *Settings) { s.Topics, s.Order = 1000, worker.OrderZipf }),
		topics("1,000 topics in bursts of 10 to 100, of one", func(s *Settings) { s.Topics, s.Order = 1000, worker.OrderBursts }),
		wildcard,
		step("1,000 topics from four goroutines, of one", shareOfTopics, func(s *Settings) { s.Topics, s.Goroutines = 1000, 4 }),
		step("1,000 topics to four subscribers by quarters, of one to four", shareOfTopics, func(s *Settings) { s.Topics, s.Subs, s.Split = 1000, 4, true }),
		step("8 publishers, of one", shareOfPublishers, func(s *Settings) { s.Buses = 8 }),
		step("32 publishers, of one", shareOfPublishers, func(s *Settings) { s.Buses = 32 }),
		step("64 publishers, of one", shareOfPublishers, func(s *Settings) { s.Buses = 64 }),
		step("10,000 subscriptions, of ten", shareOfSubscriptions, func(s *Settings) { s.Extra = 10_000 }),
		late,
	}
}

// rawKeeps says what raw keeps on many topics of what it moves on one.
func (p *Point) rawKeeps() string {
	return fmt.Sprintf("; raw keeps %.2f of its own", p.Ratio(keyRawOne).Value)
}

// besideOne is the rates behind the ratio to one topic and publisher.
func (p *Point) besideOne() string {
	return fmt.Sprintf("%s/s, one %s/s; %s messages a packet, %s a train", Short(p.Rate(keyOurs)), Short(p.Rate(keyOne)),
		mean(p.Row(keyOurs, "msgs_per_packet")), mean(p.Row(keyOurs, "msgs_per_train")))
}

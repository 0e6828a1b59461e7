package bench

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// outcome is what one run gave.
type outcome struct {
	spec worker.Spec
	pub  *worker.Report
	subs []*worker.Report
	late *hdrhistogram.Histogram // how late messages were at all subscribers; nil: that is not measured
}

// decode reads the histograms of the reports.
func (o *outcome) decode() {
	o.late = worker.NewHistogram()
	for _, r := range append([]*worker.Report{o.pub}, o.subs...) {
		if r.Latency != nil {
			o.late.Merge(hdrhistogram.Import(r.Latency))
		}
	}
}

// due is how many messages a subscriber was to get: those on the topics that it takes.
func (o *outcome) due(subscriber int) uint64 {
	if !o.spec.Split {
		return o.pub.Messages
	}
	var n uint64
	for t, published := range o.pub.Topics {
		if o.spec.Takes(subscriber, t) {
			n += published
		}
	}
	return n
}

// share is which part of all messages a subscriber was to get.
func (o *outcome) share(subscriber int) float64 {
	return max(float64(o.due(subscriber)), 1) / max(float64(o.pub.Messages), 1)
}

// checkTopics says whether a subscriber has what was published on each topic, or knows how much of it is lost.
func (o *outcome) checkTopics(subscriber int, s *worker.Report) error {
	if len(s.Topics) != len(o.pub.Topics) {
		return fmt.Errorf("counts of %d topics, want %d", len(s.Topics), len(o.pub.Topics))
	}
	for t, published := range o.pub.Topics {
		got, lost := s.Topics[t], uint64(0)
		if t < len(s.TopicsLost) {
			lost = s.TopicsLost[t]
		}
		if !o.spec.Takes(subscriber, t) {
			published = 0
		}
		if got > published || o.reliable() && got+lost != published {
			return fmt.Errorf("on topic %d of %d %d messages came and %d are known to be lost, of %d published", t, len(s.Topics), got, lost, published)
		}
	}
	return nil
}

// check says whether what was received is what was sent: in order, each once, with its content; and whether Fanfare's
// subscribers know of all that they lack.
func (o *outcome) check() error {
	if o.spec.Load == worker.LoadRequest {
		return o.checkRequests()
	}
	for i, s := range o.subs {
		who := fmt.Sprintf("%s, subscriber %d", o.spec.Contender, i+1)
		switch {
		case s.Bad > 0:
			return fmt.Errorf("%s: %d faults of order or content; the first: %s", who, s.Bad, s.Fault)
		case o.reliable() && s.Messages+s.Lost != o.due(i):
			return fmt.Errorf("%s: %d messages came and %d are known to be lost, of %d published: the rest is lost in silence",
				who, s.Messages, s.Lost, o.due(i))
		case s.Messages > o.due(i):
			return fmt.Errorf("%s: %d messages came of %d published", who, s.Messages, o.due(i))
		case o.reliable() && s.Messages == 0 && o.due(i) > 0:
			return fmt.Errorf("%s: nothing came of %d messages: is multicast allowed on interface %s?", who, o.due(i), o.spec.Interface)
		}
		if err := o.checkTopics(i, s); err != nil {
			return fmt.Errorf("%s: %w", who, err)
		}
	}
	return nil
}

// checkRequests says whether all requests were answered, and each executed once by each.
func (o *outcome) checkRequests() error {
	if o.pub.Bad > 0 {
		return fmt.Errorf("%s: %d of %d requests were not answered; the first: %s", o.spec.Contender, o.pub.Bad, o.spec.Requests, o.pub.Fault)
	}
	for i, s := range o.subs {
		if s.Bad > 0 {
			return fmt.Errorf("%s, responder %d: executed %d requests again; the first: %s", o.spec.Contender, i+1, s.Bad, s.Fault)
		}
	}
	return nil
}

// reliable reports whether what does not come is known to be lost.
func (o *outcome) reliable() bool {
	return o.spec.Contender == contenders.Fanfare || o.spec.Contender == contenders.UDP
}

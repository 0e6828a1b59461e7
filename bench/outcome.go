package bench

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/fanfaremq/fanfare/bench/contenders"
	"github.com/fanfaremq/fanfare/bench/worker"
)

// outcome is the result of one run.
type outcome struct {
	spec worker.Spec
	pub  *worker.Report
	subs []*worker.Report
	late *hdrhistogram.Histogram // delays of messages at all subscribers; nil: not measured
}

// decode decodes the histograms of the reports.
func (o *outcome) decode() {
	o.late = worker.NewHistogram()
	for _, r := range append([]*worker.Report{o.pub}, o.subs...) {
		if r.Latency != nil {
			o.late.Merge(hdrhistogram.Import(r.Latency))
		}
	}
}

// due is the number of messages that a subscriber should receive: those on its topics.
func (o *outcome) due(subscriber int) uint64 {
	if !o.spec.Split {
		return o.pub.Messages
	}
	var n uint64
	for t, published := range o.pub.Topics {
		if o.spec.Subscribes(subscriber, t) {
			n += published
		}
	}
	return n
}

// share is the share of all messages that a subscriber should receive.
func (o *outcome) share(subscriber int) float64 {
	return max(float64(o.due(subscriber)), 1) / max(float64(o.pub.Messages), 1)
}

// checkTopics checks that a subscriber received what was published on each topic, or knows how much is lost.
func (o *outcome) checkTopics(subscriber int, s *worker.Report) error {
	if len(s.Topics) != len(o.pub.Topics) {
		return fmt.Errorf("counts of %d topics, want %d", len(s.Topics), len(o.pub.Topics))
	}
	for t, published := range o.pub.Topics {
		got, lost := s.Topics[t], uint64(0)
		if t < len(s.TopicsLost) {
			lost = s.TopicsLost[t]
		}
		if !o.spec.Subscribes(subscriber, t) {
			published = 0
		}
		if got > published || o.reliable() && got+lost != published {
			return fmt.Errorf("on topic %d of %d %d messages received and %d reported lost, of %d published", t, len(s.Topics), got, lost, published)
		}
	}
	return nil
}

// check checks that received messages match those sent: in order, each once, with the right
// content; and that Fanfare's subscribers report all that is missing.
func (o *outcome) check() error {
	if o.spec.Load == worker.LoadRequest {
		return o.checkRequests()
	}
	for i, s := range o.subs {
		contestant := fmt.Sprintf("%s, subscriber %d", o.spec.Contender, i+1)
		switch {
		case s.Bad > 0:
			return fmt.Errorf("%s: %d errors of order or content; the first: %s", contestant, s.Bad, s.Fault)
		case o.reliable() && s.Messages+s.Lost != o.due(i):
			return fmt.Errorf("%s: %d messages received and %d reported lost, of %d published: the rest was lost silently",
				contestant, s.Messages, s.Lost, o.due(i))
		case s.Messages > o.due(i):
			return fmt.Errorf("%s: %d messages received of %d published", contestant, s.Messages, o.due(i))
		case o.reliable() && s.Messages == 0 && o.due(i) > 0:
			return fmt.Errorf("%s: no message received of %d: is multicast allowed on interface %s?", contestant, o.due(i), o.spec.Interface)
		}
		if err := o.checkTopics(i, s); err != nil {
			return fmt.Errorf("%s: %w", contestant, err)
		}
	}
	return nil
}

// checkRequests checks that all requests were answered, and each executed once by each responder.
func (o *outcome) checkRequests() error {
	if o.pub.Bad > 0 {
		return fmt.Errorf("%s: %d of %d requests were not answered; the first: %s", o.spec.Contender, o.pub.Bad, o.spec.Requests, o.pub.Fault)
	}
	for i, s := range o.subs {
		if s.Bad > 0 {
			return fmt.Errorf("%s, responder %d: executed %d requests twice; the first: %s", o.spec.Contender, i+1, s.Bad, s.Fault)
		}
	}
	return nil
}

// reliable reports whether missing messages must be reported as lost.
func (o *outcome) reliable() bool {
	return o.spec.Contender == contenders.Fanfare || o.spec.Contender == contenders.UDP
}

package worker

import "math/bits"

// A series is what one goroutine publishes on one topic. Where there are several, the number of a message (see MinSize)
// counts within its series. The index of the series stands in the upper bits: publisher, and then topic in as many bits
// as there are topics.
const seriesShift = 40

// MaxSeries is how many may be measured at once: the subscriber keeps 8 bytes for each.
const MaxSeries = 1 << 20

// Topics and sources in powers of two leave room for all of them.
var _ = [1]struct{}{}[4*MaxSeries>>(64-seriesShift)]

// seriesOf says how an index of a series is put together.
type seriesOf struct {
	topicBits int
	mask      uint64 // of the topic's bits
}

func newSeriesOf(topics int) seriesOf {
	n := bits.Len(uint(topics - 1))
	return seriesOf{n, 1<<n - 1}
}

func (s seriesOf) index(publisher, topic int) uint64 {
	return uint64(publisher)<<s.topicBits | uint64(topic)
}

// series are the numbers of a source of many topics, in the order of the specification.
type series struct {
	ring     []uint32 // topics of the messages in the source's ring
	schedule schedule
	first    []uint64 // by topic: number of its first message
	next     []uint64 // by topic: number of the next one that is made
}

// Source returns the source of one of the publishing goroutines, which are counted from 0 through all buses.
func (r *Run) Source(goroutine int) *Source {
	if !r.Spec.Many() {
		return newSource(r.Spec.Size, max(r.Spec.Batch, 1), nil)
	}
	topics := r.Spec.topics()
	s := &series{
		schedule: newSchedule(r.Spec.Order, topics, goroutine, r.Spec.Sources(), r.Spec.Seed),
		first:    make([]uint64, topics), next: make([]uint64, topics),
	}
	of := newSeriesOf(topics)
	for t := range topics {
		s.first[t] = of.index(goroutine, t) << seriesShift
		s.next[t] = s.first[t]
	}
	return newSource(r.Spec.Size, 1, s)
}

// take is the number of the next message, for that place of the ring.
func (s *series) take(at uint64) uint64 {
	t := s.schedule.next()
	n := s.next[t]
	s.next[t] = n + 1
	s.ring[at] = t
	return n
}

// Published ends the publisher's measurement, of which the sources gave all messages. They have ended.
func (r *Run) Published(sources ...*Source) {
	var sent uint64
	for _, s := range sources {
		sent += s.next
	}
	r.End(sent)
	if !r.Spec.Many() {
		return
	}
	r.report.Topics = make([]uint64, r.Spec.topics())
	for _, s := range sources {
		for t := range r.report.Topics {
			r.report.Topics[t] += s.topics.next[t] - s.topics.first[t]
		}
		for i := range uint64(len(s.ring) / 2) { // made, and not taken
			r.report.Topics[s.topics.ring[(s.next+i)&uint64(len(s.ring)-1)]]--
		}
	}
}

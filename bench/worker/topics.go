package worker

import "math/bits"

// A series is the messages of one goroutine on one topic. With several series, the number of a
// message (see MinSize) counts within its series. The upper bits hold the index of the series:
// publisher, and then topic in as many bits as needed.
const seriesShift = 40

// MaxSeries is the maximum number of series: the subscriber uses 8 bytes for each.
const MaxSeries = 1 << 20

// Topics and sources, rounded up to powers of two, leave room for all series.
var _ = [1]struct{}{}[4*MaxSeries>>(64-seriesShift)]

// seriesOf describes the index of a series.
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

// series holds the numbers of a source with many topics, in the order of the specification.
type series struct {
	ring     []uint32 // topics of the messages in the source's ring
	schedule schedule
	first    []uint64 // by topic: number of its first message
	next     []uint64 // by topic: number of the next message
}

// Source returns the source of a publishing goroutine; goroutines are counted from 0 through all buses.
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

// nextNumber returns the number of the next message, for that position of the ring.
func (s *series) nextNumber(at uint64) uint64 {
	t := s.schedule.next()
	n := s.next[t]
	s.next[t] = n + 1
	s.ring[at] = t
	return n
}

// Published ends the publisher's measurement. All messages came from the sources, which have ended.
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
		for i := range uint64(len(s.ring) / 2) { // prepared but not taken
			r.report.Topics[s.topics.ring[(s.next+i)&uint64(len(s.ring)-1)]]--
		}
	}
}

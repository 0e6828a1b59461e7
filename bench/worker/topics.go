package worker

import (
	"encoding/binary"
	"math/bits"
)

// A series is what one goroutine publishes on one topic. Where there are several, the
// number of a message (see MinSize) counts within its series, whose index stands in the
// upper bits: publisher, and then topic in as many bits as there are topics.
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

// TopicSource makes messages for many topics, in the order of the specification. It is
// for one goroutine.
type TopicSource struct {
	ring     [][]byte
	topics   []uint32 // of the messages in the ring
	schedule schedule
	first    []uint64 // by topic: number of its first message
	next     []uint64 // by topic: number of the next one that is made
	sent     uint64   // messages taken, all in all
}

// TopicSource returns the source of one of the publishing goroutines, which are counted
// from 0 through all buses.
func (r *Run) TopicSource(goroutine int) *TopicSource {
	topics := r.Spec.topics()
	plain := NewSource(r.Spec.Size)
	s := &TopicSource{
		ring: plain.ring, topics: make([]uint32, len(plain.ring)),
		schedule: newSchedule(r.Spec.Order, topics, goroutine, r.Spec.Sources(), r.Spec.Seed),
		first:    make([]uint64, topics), next: make([]uint64, topics),
	}
	of := newSeriesOf(topics)
	for t := range topics {
		s.first[t] = of.index(goroutine, t) << seriesShift
		s.next[t] = s.first[t]
	}
	for i := range len(s.ring) / 2 {
		s.make(uint64(i))
	}
	return s
}

// make writes the message that is the i-th of all.
func (s *TopicSource) make(i uint64) {
	at := i & uint64(len(s.ring)-1)
	t := s.schedule.next()
	n := s.next[t]
	s.next[t] = n + 1
	s.topics[at] = t
	b := s.ring[at]
	binary.LittleEndian.PutUint64(b, n)
	binary.LittleEndian.PutUint64(b[len(b)-tailBytes:], tail(n))
}

// Next returns the next message, which is valid until the next call, and the index of
// its topic. Like Source it has written the message some calls before.
func (s *TopicSource) Next() (topic int, msg []byte) {
	i := s.sent
	s.sent++
	s.make(i + uint64(len(s.ring)/2))
	at := i & uint64(len(s.ring)-1)
	return int(s.topics[at]), s.ring[at]
}

// Last returns the next message, marked as the last one of its source.
func (s *TopicSource) Last() (topic int, msg []byte) {
	topic, msg = s.Next()
	markLast(msg)
	return topic, msg
}

func (s *TopicSource) take() (int, []byte) { return s.Next() }

// Sent is how many messages were taken.
func (s *TopicSource) Sent() uint64 { return s.sent }

// addTo adds, by topic, how many messages were taken.
func (s *TopicSource) addTo(counts []uint64) {
	for t := range counts {
		counts[t] += s.next[t] - s.first[t]
	}
	for i := range uint64(len(s.ring) / 2) { // made, and not taken
		counts[s.topics[(s.sent+i)&uint64(len(s.ring)-1)]]--
	}
}

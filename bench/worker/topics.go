package worker

import (
	"encoding/binary"
	"fmt"
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

// TopicCheck checks the messages of many topics: those of each series come in order,
// each once, on their topic, with the content that TopicSource gave them. It is for one
// goroutine.
type TopicCheck struct {
	size  int
	every uint64 // as Check's
	of    seriesOf
	next  []uint64 // by series: number of its next message
	names []string // by topic; empty where the subscriber does not take it

	received uint64
	lasts    int // sources whose last message has come
	sources  int
	skipped  []uint64       // by topic: missing before a message that came
	lost     []uint64       // by topic: told of as lost; of a lossy subscriber none
	indexes  map[string]int // of names, when the first gap comes
	checkRest
}

func newTopicCheck(spec *Spec, names []string, stamped, lossy bool, first func()) *TopicCheck {
	topics, sources := spec.topics(), spec.Sources()
	c := &TopicCheck{
		size: spec.Size, every: sampled, of: newSeriesOf(topics), names: names, sources: sources,
		skipped: make([]uint64, topics), lost: make([]uint64, topics),
		checkRest: checkRest{filler: filler(spec.Size), stamped: stamped, lossy: lossy, first: first},
	}
	if spec.CheckAll {
		c.every = 0
	}
	c.next = make([]uint64, sources<<c.of.topicBits)
	for i := range c.next {
		c.next[i] = uint64(i) << seriesShift
	}
	return c
}

// On checks the next message, which came on topic.
func (c *TopicCheck) On(topic string, b []byte) {
	if len(b) == c.size {
		n := binary.LittleEndian.Uint64(b)
		if s := n >> seriesShift; s < uint64(len(c.next)) && c.next[s] == n && n&c.every != 0 &&
			binary.LittleEndian.Uint64(b[len(b)-tailBytes:]) == tail(n) && c.names[s&c.of.mask] == topic {
			c.next[s] = n + 1
			c.received++
			return
		}
	}
	c.slow(topic, b)
}

func (c *TopicCheck) slow(topic string, b []byte) {
	if c.start == 0 {
		c.first()
		c.start = Now()
	}
	if len(b) != c.size {
		c.Bad(fmt.Sprintf("a message on topic %s has %d bytes, not %d", topic, len(b), c.size))
		return
	}
	n := binary.LittleEndian.Uint64(b)
	s, number := n>>seriesShift, n&(1<<seriesShift-1)
	t := s & c.of.mask
	switch {
	case s >= uint64(len(c.next)) || t >= uint64(len(c.names)):
		c.Bad(fmt.Sprintf("a message on topic %s has the number %x, which nobody gave it", topic, n))
		return
	case c.names[t] != topic:
		c.Bad(fmt.Sprintf("message %d of topic %s came on topic %s", number, topicName(c.names[t]), topic))
		return
	case n < c.next[s]:
		c.Bad(fmt.Sprintf("message %d on topic %s came again, or after message %d", number, topic, c.next[s]&(1<<seriesShift-1)-1))
		return
	case n > c.next[s]:
		c.skip(topic, t, number, n-c.next[s])
	}
	c.next[s] = n + 1
	c.received++
	last, ok := c.content(b, n)
	if !ok {
		c.Bad(fmt.Sprintf("message %d on topic %s has the wrong content", number, topic))
		return
	}
	if last {
		c.lasts++
	}
	c.mark(c.received, last)
}

// skip takes note that count messages of a series did not come before message number.
func (c *TopicCheck) skip(topic string, t, number, count uint64) {
	c.skipped[t] += count
	switch {
	case c.lossy:
		c.missing += count
		c.gaps++
	case c.skipped[t] > c.lost[t]:
		c.Bad(fmt.Sprintf("message %d on topic %s came in place of message %d", number, topic, number-count))
	}
}

func topicName(name string) string {
	if name == "" {
		return "that is not taken"
	}
	return name
}

// Gap takes note that count messages of a topic are known to be lost, from number first
// on of their publisher: that of the series, where there is one source.
func (c *TopicCheck) Gap(topic string, first, count uint64) {
	if c.indexes == nil {
		c.indexes = make(map[string]int)
		for i, name := range c.names {
			c.indexes[name] = i
		}
	}
	i, ok := c.indexes[topic]
	if !ok {
		c.Bad(fmt.Sprintf("a gap of %d messages on topic %q, which is not taken", count, topic))
		return
	}
	if at := c.next[i]&(1<<seriesShift-1) + c.lost[i] - c.skipped[i]; c.sources == 1 && first != at {
		c.Bad(fmt.Sprintf("a gap from message %d on topic %s came in place of message %d", first, topic, at))
	}
	c.lost[i] += count
	c.gaps++
	c.missing += count
}

// Done reports whether the last message of every source has come.
func (c *TopicCheck) Done() bool { return c.lasts == c.sources }

func (c *TopicCheck) count() uint64 { return c.received }

func (c *TopicCheck) report(r *Report) {
	c.checkRest.report(r)
	r.Messages = c.received
	r.Topics = make([]uint64, len(c.names))
	for s, next := range c.next {
		if t := uint64(s) & c.of.mask; t < uint64(len(r.Topics)) {
			r.Topics[t] += next - uint64(s)<<seriesShift
		}
	}
	for t := range r.Topics {
		r.Topics[t] -= c.skipped[t]
	}
	if c.missing > 0 && !c.lossy {
		r.TopicsLost = c.lost
	}
}

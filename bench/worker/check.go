package worker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Check checks that the messages of each series arrive in order, each once, on their topic, with the content
// from their source, and measures their delay if they are stamped. It is not safe for concurrent use.
type Check struct {
	next     []uint64 // by series: number of the next message
	received uint64
	size     int
	every    uint64 // a mask: content is checked if the number has none of these bits
	plain    uint64 // the same for Message; 0 if there are several series, or messages are stamped
	of       seriesOf
	names    []string // by topic; empty if not subscribed

	filler  []byte
	latency *hdrhistogram.Histogram // in ns; nil if messages are not stamped
	warmUp  uint64                  // messages before the latency measurement
	lossy   bool                    // missing messages are counted, and are no fault
	first   func()                  // called with the first message

	lasts   int // sources that have sent their last message
	sources int
	skipped []uint64       // by topic: numbers missing before a received message
	lost    []uint64       // by topic: reported as lost; zero for a lossy subscriber
	indexes map[string]int // index of names, built at the first gap
	markAt  uint64         // number of messages at which the clock is read next
	report  *Report        // complete after finish
}

// newCheck returns a check for a subscriber of the topics with these names. first is called at the first message.
func newCheck(spec *Spec, names []string, lossy bool, first func(), report *Report) *Check {
	topics, sources := spec.topics(), spec.Sources()
	c := &Check{
		size: spec.Size, every: sampled, of: newSeriesOf(topics), names: names, sources: sources,
		skipped: make([]uint64, topics), lost: make([]uint64, topics),
		filler: filler(spec.Size), lossy: lossy, first: first, report: report,
	}
	if spec.CheckAll {
		c.every = 0
	}
	if spec.Load == LoadPaced { // the first tenth does not count, at most 0.2 s
		c.latency = NewHistogram()
		c.warmUp = uint64(min(spec.duration()/10, 200*time.Millisecond).Seconds() * spec.Rate)
	} else if !spec.Many() {
		c.plain = c.every
	}
	c.next = make([]uint64, sources<<c.of.topicBits)
	for i := range c.next {
		c.next[i] = uint64(i) << seriesShift
	}
	return c
}

// Names returns the names of the subscribed topics. Comparing received topics is faster if the
// subscriber subscribed with these very strings.
func (c *Check) Names() []string {
	return slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return name == "" })
}

// Message checks the next message if there is only one topic. It is faster than On.
func (c *Check) Message(b []byte) {
	if n := c.next[0]; len(b) == c.size && n&c.plain != 0 && binary.LittleEndian.Uint64(b) == n &&
		binary.LittleEndian.Uint64(b[len(b)-tailBytes:]) == tail(n) {
		c.next[0] = n + 1
		c.received++
		return
	}
	c.On(c.names[0], b)
}

// On checks the next message, which was received on topic.
func (c *Check) On(topic string, b []byte) {
	expected := false
	if len(b) == c.size {
		n := binary.LittleEndian.Uint64(b)
		if s := n >> seriesShift; s < uint64(len(c.next)) && c.next[s] == n && n&c.every != 0 &&
			binary.LittleEndian.Uint64(b[len(b)-tailBytes:]) == tail(n) && c.names[s&c.of.mask] == topic {
			c.next[s] = n + 1
			c.received++
			expected = true
		}
	}
	if !expected {
		c.slow(topic, b)
	}
	if c.latency != nil && len(b) >= MinSize && c.received > c.warmUp {
		record(c.latency, Now()-dueAt(b))
	}
}

func (c *Check) slow(topic string, b []byte) {
	if c.report.Start == 0 {
		c.first()
		c.report.Start = Now()
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
		c.Bad(fmt.Sprintf("a message on topic %s has number %x, which no source assigned", topic, n))
		return
	case c.names[t] != topic:
		c.Bad(fmt.Sprintf("message %d of topic %q received on topic %q", number, c.names[t], topic))
		return
	case n < c.next[s]:
		c.Bad(fmt.Sprintf("message %d on topic %s received twice, or after message %d", number, topic, c.next[s]&(1<<seriesShift-1)-1))
		return
	case n > c.next[s]:
		c.skip(topic, t, number, n-c.next[s])
	}
	c.next[s] = n + 1
	c.received++
	from, end := fillerAt, len(b)-tailBytes
	if c.latency == nil {
		from = stampAt
	}
	mark := binary.LittleEndian.Uint64(b[end:]) ^ tail(n)
	last := mark == lastMark
	if mark != 0 && !last || !bytes.Equal(b[from:end], c.filler[from:end]) {
		c.Bad(fmt.Sprintf("message %d on topic %s has the wrong content", number, topic))
		return
	}
	if last {
		c.lasts++
	}
	if c.received >= c.markAt || last {
		c.report.End, c.report.Timed, c.markAt = Now(), c.received, c.received+markEvery
	}
}

// skip records that count messages of a series are missing before message number.
func (c *Check) skip(topic string, t, number, count uint64) {
	c.skipped[t] += count
	switch {
	case c.lossy:
		c.report.Lost += count
		c.report.Gaps++
	case c.skipped[t] > c.lost[t]:
		c.Bad(fmt.Sprintf("message %d on topic %s received instead of message %d", number, topic, number-count))
	}
}

// Gap records that count messages of a topic are reported lost, from number first of their
// publisher, which is the number in the series if there is one source.
func (c *Check) Gap(topic string, first, count uint64) {
	if c.indexes == nil {
		c.indexes = make(map[string]int)
		for i, name := range c.names {
			c.indexes[name] = i
		}
	}
	i, ok := c.indexes[topic]
	if !ok {
		c.Bad(fmt.Sprintf("a gap of %d messages on topic %q, which is not subscribed", count, topic))
		return
	}
	if at := c.next[i]&(1<<seriesShift-1) + c.lost[i] - c.skipped[i]; c.sources == 1 && first != at {
		c.Bad(fmt.Sprintf("a gap from message %d on topic %s instead of message %d", first, topic, at))
	}
	c.lost[i] += count
	c.report.Lost += count
	c.report.Gaps++
}

// Bad counts an error.
func (c *Check) Bad(what string) { c.report.fault(what) }

// Done reports whether the last message of every source has arrived.
func (c *Check) Done() bool { return c.lasts == c.sources }

// finish returns the report, with the counters of the check.
func (c *Check) finish() *Report {
	r := c.report
	r.Messages = c.received
	if c.latency != nil {
		r.Latency = c.latency.Export()
	}
	if len(c.next) == 1 {
		return r
	}
	r.Topics = make([]uint64, len(c.names))
	for s, next := range c.next {
		if t := uint64(s) & c.of.mask; t < uint64(len(r.Topics)) {
			r.Topics[t] += next - uint64(s)<<seriesShift
		}
	}
	for t := range r.Topics {
		r.Topics[t] -= c.skipped[t]
	}
	if r.Lost > 0 && !c.lossy {
		r.TopicsLost = c.lost
	}
	return r
}

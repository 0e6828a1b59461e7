package worker

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Check checks that the messages of each series come in order, each once, on their topic, with the content that their
// source gave them, and measures how late they are where they are stamped. It is for one goroutine.
type Check struct {
	next     []uint64 // by series: number of its next message
	received uint64
	size     int
	every    uint64 // a mask: the content of numbers with none of these bits is checked
	plain    uint64 // the same for Message; 0 where there are several series, or messages are stamped
	of       seriesOf
	names    []string // by topic; empty where the subscriber does not take it

	filler  []byte
	latency *hdrhistogram.Histogram // ns; nil where messages do not hold when they were due
	warmUp  uint64                  // messages before the measurement of that
	lossy   bool                    // what is missing is no fault, but counted
	first   func()                  // called with the first message

	lasts   int // sources that are complete
	sources int
	skipped []uint64       // by topic: missing before a message that came
	lost    []uint64       // by topic: reported as lost; of a lossy subscriber none
	indexes map[string]int // of names, when the first gap comes
	markAt  uint64         // how many messages will have come when the time is taken next
	report  *Report        // whole when finished
}

// newCheck returns a check for a subscriber that takes the topics with these names. first is
// called when the first message comes.
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
	if spec.Load == LoadPaced { // a tenth of it does not count, at most 0.2 s
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

// Names are the names of the topics that the subscriber takes. They are compared sooner with what
// has come where it has subscribed to these very strings.
func (c *Check) Names() []string {
	return slices.DeleteFunc(slices.Clone(c.names), func(name string) bool { return name == "" })
}

// Message takes the next message, where there is one topic. It is faster than On.
func (c *Check) Message(b []byte) {
	if n := c.next[0]; len(b) == c.size && n&c.plain != 0 && binary.LittleEndian.Uint64(b) == n &&
		binary.LittleEndian.Uint64(b[len(b)-tailBytes:]) == tail(n) {
		c.next[0] = n + 1
		c.received++
		return
	}
	c.On(c.names[0], b)
}

// On takes the next message, which came on topic.
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
		c.Bad(fmt.Sprintf("a message on topic %s has the number %x, which no source gave it", topic, n))
		return
	case c.names[t] != topic:
		c.Bad(fmt.Sprintf("message %d of topic %q came on topic %q", number, c.names[t], topic))
		return
	case n < c.next[s]:
		c.Bad(fmt.Sprintf("message %d on topic %s came again, or after message %d", number, topic, c.next[s]&(1<<seriesShift-1)-1))
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

// skip takes note that count messages of a series did not come before message number.
func (c *Check) skip(topic string, t, number, count uint64) {
	c.skipped[t] += count
	switch {
	case c.lossy:
		c.report.Lost += count
		c.report.Gaps++
	case c.skipped[t] > c.lost[t]:
		c.Bad(fmt.Sprintf("message %d on topic %s came in place of message %d", number, topic, number-count))
	}
}

// Gap takes note that count messages of a topic are known to be lost, from number first
// on of their publisher: that of the series, where there is one source.
func (c *Check) Gap(topic string, first, count uint64) {
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
	c.report.Lost += count
	c.report.Gaps++
}

// Bad counts something that must not be.
func (c *Check) Bad(what string) { c.report.fault(what) }

// Done reports whether the last message of every source has come.
func (c *Check) Done() bool { return c.lasts == c.sources }

// finish returns the report, with what the check has counted by itself.
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

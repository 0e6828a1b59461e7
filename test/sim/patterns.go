package sim

import (
	"math"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/pattern"
)

// Subscribers to patterns. The checker finds independently which topics match, and from which
// packet on; the loop has to learn the names in time.

// Pattern is a pattern that a subscriber subscribes to in each of its stays.
type Pattern struct {
	At   time.Duration // after the beginning of the stay
	Text string
}

// patternTexts are the patterns to draw from.
var patternTexts = []string{">", "sim.>", "sim.even.>", "sim.odd.*.*", "*.*.*.3", "sim.*.*.12", "sim.none.>"}

// beginPatterns schedules the patterns of the stay. The subscriptions begin with those without a time.
func (s *subscriber) beginPatterns() {
	for _, p := range s.o.Patterns {
		parsed, err := pattern.Parse(p.Text)
		switch {
		case err != nil:
			s.sim.fail("subscriber %d: %v", s.number, err)
		case p.At == 0:
			s.patterns = append(s.patterns, parsed)
			s.first = len(s.patterns)
		default:
			s.After(p.At, func() { s.Go(func() { s.add(parsed) }) })
		}
	}
}

// add adds a pattern to all subscriptions. It is a task.
func (s *subscriber) add(p pattern.Pattern) {
	s.Wait(func() bool { return s.waits == 0 }) // until the subscriptions have begun
	s.sim.trace("subscriber %d subscribes to %v", s.number, p)
	s.waits++
	s.patterns = append(s.patterns, p)
	defer func() { s.waits-- }()
	for _, x := range s.readers {
		if x.s == nil {
			continue // the stay ends
		}
		at := s.sim.now
		x.adding, x.before = p, s.positions()
		if err := x.s.Add([]engine.TopicName{{Name: p.String(), Pattern: p}}); err != nil {
			if !x.ended && s.present() && x.s.Err() == nil {
				x.fail("adding %v: %v", p, err)
			}
			continue
		}
		if s.sim.now > at {
			s.sim.report.Ahead++ // names were learned first
		}
		for _, f := range x.feeds {
			f.expect(p, f.x.st.Next(), x.before[f.x])
		}
		x.adding, x.added = pattern.Pattern{}, append(x.added, p)
	}
}

// positions returns the next packet of each stream.
func (s *subscriber) positions() map[*stream]uint64 {
	at := make(map[*stream]uint64)
	for _, x := range s.streams {
		at[x] = x.st.Next()
	}
	return at
}

// expect records the topics that the feed must deliver because of a pattern, which was added when the stream was at
// packet from, or since packet earliest.
func (f *feed) expect(p pattern.Pattern, from, earliest uint64) {
	for i, name := range topicNames {
		if tf := &f.topics[i]; !f.wants(i) && p.Match(name) {
			tf.added, tf.from, tf.earliest = true, from, earliest
		}
	}
}

// wants reports whether the feed's reader subscribes to a topic.
func (f *feed) wants(topic int) bool { return f.r.sub.always(topic) || f.topics[topic].added }

// named returns the packet from which on the feed must have a topic, although only patterns match it: the first one
// with the topic's name that has arrived since the topic was wanted. It may know the name earlier, from another stream.
func (f *feed) named(topic int) uint64 {
	if topic < f.r.sub.names {
		return 0
	}
	for _, seq := range f.t.topics[topic].named {
		if seq >= f.from(topic) && !f.r.sub.inHole(f.x.st.Instance, seq, seq) {
			return seq
		}
	}
	return math.MaxUint64
}

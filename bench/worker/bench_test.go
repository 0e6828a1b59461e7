package worker

import "testing"

// The cost of stamping and checking a message, which is part of every rate.
func BenchmarkSource(b *testing.B) {
	s := NewSource(64)
	dst := make([]byte, 64)
	for b.Loop() {
		copy(dst, s.Next())
	}
}

func BenchmarkCheck(b *testing.B) {
	const n = 1 << 12
	s := NewSource(64)
	var all []byte
	for range n {
		all = append(all, s.Next()...)
	}
	i := 0
	c := newTestCheck(64, false, false)
	for b.Loop() {
		if i == n {
			i = 0
			c.next[0] = 0
		}
		c.Message(all[i*64 : i*64+64])
		i++
	}
	if c.report.Bad > 0 {
		b.Fatalf("%d bad messages: %s", c.report.Bad, c.report.Fault)
	}
}

// The same with many topics.
func BenchmarkTopicSource(b *testing.B) {
	spec := manySpec(1000, 1, 1, OrderRound)
	s := newRun(&spec, nil, nil).Source(0)
	dst := make([]byte, 64)
	for b.Loop() {
		_, msg := s.Take()
		copy(dst, msg)
	}
}

// Source and check together.
func BenchmarkTopics(b *testing.B) {
	spec := manySpec(1000, 1, 1, OrderRound)
	s, names := newRun(&spec, nil, nil).Source(0), spec.TopicNames()
	c := newCheck(&spec, spec.subscribedNames(0), false, func() {}, new(Report))
	for b.Loop() {
		topic, msg := s.Take()
		c.On(names[topic], msg)
	}
	if c.report.Bad > 0 {
		b.Fatalf("%d bad messages: %s", c.report.Bad, c.report.Fault)
	}
}

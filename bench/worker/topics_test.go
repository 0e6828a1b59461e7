package worker

import (
	"bytes"
	"strings"
	"testing"
)

func manySpec(topics, goroutines, buses int, order Order) Spec {
	return Spec{
		Topic: "t", Traffic: Traffic{Size: 64, Subs: 1}, Seed: 7,
		Shape: Shape{Topics: topics, Goroutines: goroutines, Buses: buses, Order: order},
	}
}

// onTopic is a message as delivered.
type onTopic struct {
	topic string
	data  []byte
}

// published returns n messages of each source and the last of each, and the number of messages on each topic.
func published(spec Spec, n int) ([]onTopic, []uint64) {
	r := newRun(&spec, nil, nil)
	names := spec.TopicNames()
	var all []onTopic
	var sources []*Source
	for i := range spec.Sources() {
		s := r.Source(i)
		sources = append(sources, s)
		for range n - 1 {
			topic, msg := s.Take()
			all = append(all, onTopic{names[topic], bytes.Clone(msg)})
		}
		topic, msg := s.Last()
		all = append(all, onTopic{names[topic], bytes.Clone(msg)})
	}
	r.Published(sources...)
	return all, r.report.Topics
}

func checked(spec Spec, lossy bool, all []onTopic, gaps func(*Check)) (*Report, *Check) {
	c := newCheck(&spec, spec.subscribedNames(0), lossy, func() {}, new(Report))
	if gaps != nil {
		gaps(c)
	}
	for _, m := range all {
		c.On(m.topic, m.data)
	}
	return c.finish(), c
}

// Messages from sources pass the check, in every order, and the counts of each topic match.
func TestTopicCheckAcceptsSources(t *testing.T) {
	for _, order := range Orders() {
		for _, spec := range []Spec{
			manySpec(2, 1, 1, order), manySpec(3, 4, 1, order), manySpec(1000, 1, 1, order), manySpec(5, 3, 7, order), manySpec(1, 1, 2, order),
		} {
			const n = 700
			all, counts := published(spec, n)
			got, c := checked(spec, false, all, nil)
			total := uint64(n * spec.Sources())
			if got.Bad > 0 || got.Messages != total || got.Timed != total || got.Lost > 0 || !c.Done() || got.TopicsLost != nil {
				t.Errorf("%s, %+v: %d faults, the first %q; %d messages of %d, done %t", order, spec, got.Bad, got.Fault, got.Messages, total, c.Done())
			}
			var sum uint64
			for i := range counts {
				sum += counts[i]
				if got.Topics[i] != counts[i] {
					t.Errorf("%s, %d topics: %d messages on topic %d, want %d", order, spec.Topics, got.Topics[i], i, counts[i])
				}
			}
			if sum != total {
				t.Errorf("%s, %d topics: %d messages published, want %d", order, spec.Topics, sum, total)
			}
		}
	}
}

// Errors in one topic's messages are detected even if totals match.
func TestTopicCheckDetects(t *testing.T) {
	spec := manySpec(4, 1, 1, OrderRound) // message i is on topic i % 4
	const n, at = 800, 402                // message 100 of topic 2
	for _, c := range []struct {
		name     string
		spoil    func(m []onTopic) []onTopic
		wantText string
	}{
		{"nothing", func(m []onTopic) []onTopic { return m }, ""},
		{"topics in another order", func(m []onTopic) []onTopic { m[at], m[at+1] = m[at+1], m[at]; return m }, ""},
		{"swapped on a topic", func(m []onTopic) []onTopic { m[at], m[at+4] = m[at+4], m[at]; return m }, "message 101 on topic t.2 received instead of message 100"},
		{"twice", func(m []onTopic) []onTopic { return append(m[:at+1:at+1], m[at:]...) }, "message 100 on topic t.2 received twice"},
		{"missing", func(m []onTopic) []onTopic { return append(m[:at:at], m[at+1:]...) }, "message 101 on topic t.2 received instead of message 100"},
		{"another topic", func(m []onTopic) []onTopic { m[at].topic = "t.3"; return m }, "message 100 of topic \"t.2\" received on topic \"t.3\""},
		{"no topic", func(m []onTopic) []onTopic { m[at].topic = ""; return m }, "received on topic"},
		{"cut", func(m []onTopic) []onTopic { m[at].data = m[at].data[:40]; return m }, "has 40 bytes, not 64"},
		{"tail", func(m []onTopic) []onTopic { m[at].data[60] ^= 1; return m }, "message 100 on topic t.2 has the wrong content"},
		{"filler of a sample", func(m []onTopic) []onTopic { m[2+4*64].data[20] ^= 1; return m }, "message 64 on topic t.2 has the wrong content"},
		{"series", func(m []onTopic) []onTopic { m[at].data[7] ^= 0x40; return m }, "which no source assigned"},
	} {
		all, _ := published(spec, n)
		got, _ := checked(spec, false, c.spoil(all), nil)
		if (got.Bad > 0) != (c.wantText != "") || !strings.Contains(got.Fault, c.wantText) {
			t.Errorf("%s: %d faults, the first %q; want %q", c.name, got.Bad, got.Fault, c.wantText)
		}
	}
}

// A reported loss is no error at the right position and up to its size; a lossy subscriber counts losses.
func TestTopicCheckGaps(t *testing.T) {
	spec := manySpec(4, 1, 1, OrderRound)
	all, counts := published(spec, 800)
	left := append(all[:8:8], all[12:]...) // message 2 of each topic is lost
	feed := func(c *Check) {
		for _, m := range left[:8] {
			c.On(m.topic, m.data)
		}
		for _, name := range spec.TopicNames() {
			c.Gap(name, 2, 1)
		}
	}
	got, c := checked(spec, false, left[8:], feed)
	if got.Bad > 0 || got.Lost != 4 || got.Gaps != 4 || got.Messages != 796 || !c.Done() {
		t.Errorf("report %+v, done %t, want 796 messages, 4 lost in 4 gaps, and done", got, c.Done())
	}
	for i := range counts {
		if got.Topics[i]+got.TopicsLost[i] != counts[i] || got.TopicsLost[i] != 1 {
			t.Errorf("topic %d: %d received and %d lost, want %d in all and 1 lost", i, got.Topics[i], got.TopicsLost[i], counts[i])
		}
	}
	for name, c := range map[string]struct {
		topic        string
		first, count uint64
	}{"too few": {"t.1", 2, 0}, "another topic": {"t.2", 2, 2}, "no topic": {"t", 2, 1}, "another index": {"t.1", 3, 1}} {
		if got, _ := checked(spec, false, left[8:], func(check *Check) {
			for _, m := range left[:8] {
				check.On(m.topic, m.data)
			}
			check.Gap(c.topic, c.first, c.count)
		}); got.Bad == 0 {
			t.Errorf("%s: a wrong gap is accepted", name)
		}
	}
	if got, _ := checked(spec, true, left, nil); got.Bad > 0 || got.Lost != 4 || got.Gaps != 4 || got.TopicsLost != nil {
		t.Errorf("lossy: report %+v, want 4 messages lost in 4 gaps and no lost topics", got)
	}
}

// A subscriber of a share of the topics accepts no others.
func TestTopicCheckShare(t *testing.T) {
	spec := manySpec(4, 1, 1, OrderRound)
	spec.Split, spec.Subs = true, 2
	all, counts := published(spec, 400)
	var even []onTopic
	for _, m := range all {
		if m.topic == "t.0" || m.topic == "t.2" {
			even = append(even, m)
		}
	}
	if got, _ := checked(spec, false, even, nil); got.Bad > 0 || got.Topics[0] != counts[0] || got.Topics[1] != 0 {
		t.Errorf("report %+v, want %d messages on the first topic and none on the second", got, counts[0])
	}
	if got, _ := checked(spec, false, all, nil); got.Bad == 0 {
		t.Error("topics of other subscribers are accepted")
	}
}

// Orders match their description, and the same seed yields the same order.
func TestSchedule(t *testing.T) {
	round := newSchedule(OrderRound, 10, 1, 2, 1)
	for i := range 20 {
		if got := round.next(); got != uint32((5+i)%10) {
			t.Fatalf("round: message %d of the second of two goroutines is on topic %d, want %d", i, got, (5+i)%10)
		}
	}
	counts := make([]int, 100)
	zipf, again, other := newSchedule(OrderZipf, 100, 0, 1, 1), newSchedule(OrderZipf, 100, 0, 1, 1), newSchedule(OrderZipf, 100, 0, 1, 2)
	differs := false
	for range 10_000 {
		topic := zipf.next()
		if again.next() != topic {
			t.Fatal("zipf: the same seed yields other topics")
		}
		differs = differs || other.next() != topic
		counts[topic]++
	}
	if !differs || counts[0] < 3*counts[4] || counts[4] < 2*counts[40] || counts[40] == 0 {
		t.Errorf("zipf: %v, another seed differs: %t", counts, differs)
	}
	bursts := newSchedule(OrderBursts, 30, 0, 1, 1)
	run, runs := 1, 0
	last := bursts.next()
	for range 50_000 {
		topic := bursts.next()
		if topic == last {
			run++
			continue
		}
		if runs++; runs > 1 && (run < burstMin || run > burstMax) {
			t.Fatalf("bursts: a run of %d messages, want %d to %d", run, burstMin, burstMax)
		}
		run, last = 1, topic
	}
	if runs < 50_000/burstMax {
		t.Errorf("bursts: %d runs, want at least %d", runs, 50_000/burstMax)
	}
}

// Neither side's work on a message of many topics allocates.
func TestTopicAllocs(t *testing.T) {
	spec := manySpec(100, 1, 1, OrderZipf)
	s, names := newRun(&spec, nil, nil).Source(0), spec.TopicNames()
	c := newCheck(&spec, spec.subscribedNames(0), false, func() {}, new(Report))
	if n := testing.AllocsPerRun(10_000, func() {
		topic, msg := s.Take()
		c.On(names[topic], msg)
	}); n != 0 || c.report.Bad > 0 {
		t.Errorf("%v allocations a message, want none; fault %q", n, c.report.Fault)
	}
}

package pattern

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func same(topic string) string { return topic }

// compareTopics compares the topics that the index finds for a pattern with those that the pattern matches.
func compareTopics(t *testing.T, s *Topics[string], p Pattern, topics []string) {
	t.Helper()
	var want []string
	for _, topic := range topics {
		if p.Match(topic) {
			want = append(want, topic)
		}
	}
	got := s.Append(nil, p, same)
	slices.Sort(got)
	slices.Sort(want)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("topics of pattern %s: %q, want %q", p, got, want)
	}
}

// Topics are found by pattern.
func TestTopics(t *testing.T) {
	topics := []string{"a", "b", "a.b", "a.c", "b.b", "a.b.c", "a.b.d", "b.c.c"}
	var s Topics[string]
	for _, topic := range topics {
		s.Add(topic, topic)
		s.Add(topic, topic)
	}
	for _, text := range []string{"a", "a.b", "a.b.c", "*", ">", "a.*", "a.>", "a.b.>", "*.b", "*.*", "*.>", "a.*.c", "*.b.*", "*.b.>", "*.*.*.>", "c.>", "c"} {
		compareTopics(t, &s, mustParse(t, text), topics)
	}
	s.Remove("c", "c")
	s.Remove("a.b", "a")
	for len(topics) > 0 {
		s.Remove(topics[0], topics[0])
		topics = topics[1:]
		compareTopics(t, &s, mustParse(t, ">"), topics)
	}
	if len(s.lists) > 0 {
		t.Errorf("lists without a topic: %v", s.lists)
	}
}

func TestRandomTopics(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var s Topics[string]
	var topics []string
	for range 2000 {
		if topic := draw(r, []string{"a", "b", "c"}); r.IntN(2) == 0 && !slices.Contains(topics, topic) {
			s.Add(topic, topic)
			topics = append(topics, topic)
		} else if i := slices.Index(topics, topic); i >= 0 {
			s.Remove(topic, topic)
			topics = slices.Delete(topics, i, i+1)
		}
		if p, err := Parse(draw(r, []string{"a", "b", "*", ">"})); err == nil {
			compareTopics(t, &s, p, topics)
		}
	}
}

// A pattern checks only the topics that have its rarest token or begin as it does, however many others there are.
func TestTopicsOfMany(t *testing.T) {
	for _, n := range []int{100, 10_000} {
		var s Topics[string]
		add := func(topic string, args ...any) {
			topic = fmt.Sprintf(topic, args...)
			s.Add(topic, topic)
		}
		for i := range n {
			add("x%d.c%d", i, i)
			add("md.x%d.c%d.trades", i, i)
			add("md.y.z%d.u", i)
			add("q.x.z%d.u", i)
		}
		add("md.x.last.u")
		for text, want := range map[string]int{
			"*.c5": 1, "md.*.c5.*": 1, "md.*.c5.>": 1, "*.*.c5.*": 1, "*.x7.>": 1, "md.x7.>": 1, "md.*.*.trades": n,
			"md.x.*.u": 1, // though many topics have each of its tokens
			"no.*":     0,
			"*.c5.no":  0,
		} {
			if got := len(s.candidates(mustParse(t, text))); got != want {
				t.Errorf("of %d topics %s checks %d, want %d", len(s.candidates(mustParse(t, ">"))), text, got, want)
			}
		}
	}
}

func BenchmarkTopics(b *testing.B) {
	for _, topics := range []int{100, 10_000} {
		for _, text := range []string{"*.c5", "md.*.c5", "md.>"} {
			b.Run(fmt.Sprintf("%s/%d", text, topics), func(b *testing.B) {
				var s Topics[string]
				for i := range topics {
					for _, topic := range []string{fmt.Sprintf("x%d.c%d", i, i), fmt.Sprintf("md.x%d.c%d", i, i)} {
						s.Add(topic, topic)
					}
				}
				p := mustParse(b, text)
				var buf []string
				for b.Loop() {
					buf = s.Append(buf[:0], p, same)
				}
			})
		}
	}
}

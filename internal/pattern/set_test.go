package pattern

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestSet(t *testing.T) {
	var s Set[string]
	texts := []string{"a", "a.b", "a.*", "a.>", "*", ">", "*.b", "*.>", "a.b.c", "a.*.c", "*.*.*", "x.y"}
	for _, text := range texts {
		s.Add(mustParse(t, text), text)
	}
	check := func(topic string, want ...string) {
		t.Helper()
		got := s.Append(nil, topic)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("values of topic %s: %q, want %q", topic, got, want)
		}
	}
	check("a", "a", "*", ">")
	check("b", "*", ">")
	check("a.b", "a.b", "a.*", "a.>", ">", "*.b", "*.>")
	check("a.b.c", "a.>", ">", "*.>", "a.b.c", "a.*.c", "*.*.*")
	check("q.r.s.t", ">", "*.>")

	if s.Remove(mustParse(t, "a.x"), "a.x") || s.Remove(mustParse(t, "a.>"), "other") || s.Remove(mustParse(t, "b.c.d"), "") {
		t.Error("Remove succeeds for a value that the set does not have")
	}
	for _, text := range []string{"a.>", "a.*.c", ">"} {
		if !s.Remove(mustParse(t, text), text) {
			t.Errorf("%s was not removed", text)
		}
	}
	check("a.b.c", "*.>", "a.b.c", "*.*.*")
	if s.Len() != len(texts)-3 {
		t.Errorf("%d values are left, want %d", s.Len(), len(texts)-3)
	}
	for _, text := range texts {
		s.Remove(mustParse(t, text), text)
	}
	if s.Len() != 0 || !s.root.empty() {
		t.Errorf("%d values are left, and the trie %v, want none and an empty one", s.Len(), s.root)
	}
}

// Several values may have the same pattern, each value once.
func TestSetSamePattern(t *testing.T) {
	var s Set[int]
	p := mustParse(t, "a.*")
	s.Add(p, 1)
	s.Add(p, 1)
	s.Add(p, 2)
	if got := s.Append(nil, "a.b"); len(got) != 2 || s.Len() != 2 {
		t.Errorf("topic a.b has values %v, the set %d, want 2 each", got, s.Len())
	}
	for i, want := range []bool{true, false} {
		if s.Remove(p, 1) != want {
			t.Errorf("removal %d of a value: %v, want the opposite", i+1, !want)
		}
	}
	if got := s.Append(nil, "a.b"); !slices.Equal(got, []int{2}) {
		t.Errorf("topic a.b has values %v, want 2 alone", got)
	}
}

// With 10,000 patterns a lookup visits only the few nodes on the topic's path.
func TestSetOfMany(t *testing.T) {
	var s Set[int]
	for i := range 10_000 {
		s.Add(mustParse(t, fmt.Sprintf("md.x%d.*.trades", i)), i)
	}
	if got := s.Append(nil, "md.x4711.AAPL.trades"); !slices.Equal(got, []int{4711}) {
		t.Fatalf("the topic has values %v, want 4711 alone", got)
	}
	buf := make([]int, 0, 4)
	if n := testing.AllocsPerRun(100, func() { buf = s.Append(buf[:0], "md.x4711.AAPL.trades") }); n != 0 {
		t.Errorf("a lookup allocates %v times, want none", n)
	}
	p := mustParse(t, "md.*.AAPL.>")
	if n := testing.AllocsPerRun(100, func() { p.Match("md.x4711.AAPL.trades") }); n != 0 {
		t.Errorf("a match allocates %v times, want none", n)
	}
	if n := visited(&s.root, "md.x4711.AAPL.trades"); n != 5 {
		t.Errorf("a lookup visits %d nodes, want one for each token and the root", n)
	}
}

// visited counts the nodes that Append visits.
func visited(n *node[int], topic string) int {
	token, topic, more := strings.Cut(topic, ".")
	sum := 1
	for _, next := range []*node[int]{n.literal[token], n.one} {
		switch {
		case next != nil && more:
			sum += visited(next, topic)
		case next != nil:
			sum++
		}
	}
	return sum
}

func BenchmarkSet(b *testing.B) {
	for _, patterns := range []int{100, 10_000} {
		b.Run(fmt.Sprint(patterns), func(b *testing.B) {
			var s Set[int]
			for i := range patterns {
				s.Add(mustParse(b, fmt.Sprintf("md.x%d.*.trades", i)), i)
			}
			var buf []int
			for b.Loop() {
				buf = s.Append(buf[:0], "md.x42.AAPL.trades")
			}
		})
	}
}

// draw returns a text of few different tokens.
func draw(r *rand.Rand, tokens []string) string {
	list := make([]string, 1+r.IntN(5))
	for i := range list {
		list[i] = tokens[r.IntN(len(tokens))]
	}
	return strings.Join(list, ".")
}

// Random patterns match as the reference says, and the relations of two patterns agree with their matches.
func TestRandomPatterns(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	topics := make([]string, 100)
	for i := range topics {
		topics[i] = draw(r, []string{"a", "b", "c"})
	}
	var patterns []Pattern
	var s Set[int]
	for len(patterns) < 100 {
		p, err := Parse(draw(r, []string{"a", "b", "*", ">"}))
		if err != nil {
			continue // > in the middle
		}
		s.Add(p, len(patterns))
		patterns = append(patterns, p)
	}
	compare(t, &s, patterns, topics)
	for i, p := range patterns {
		for _, q := range patterns {
			both, onlyQ := false, false
			for _, topic := range topics {
				inP, inQ := p.Match(topic), q.Match(topic)
				both = both || inP && inQ
				onlyQ = onlyQ || inQ && !inP
			}
			if both && !p.Overlaps(q) || onlyQ && p.Covers(q) || p.Covers(q) && !p.Overlaps(q) {
				t.Errorf("%s and %s: overlap %v, cover %v", p, q, p.Overlaps(q), p.Covers(q))
			}
		}
		if i%2 == 0 {
			s.Remove(p, i)
			patterns[i] = Pattern{}
		}
	}
	compare(t, &s, patterns, topics)
}

// compare compares Match and the set, which has the indices of the patterns, with the reference.
func compare(t *testing.T, s *Set[int], patterns []Pattern, topics []string) {
	t.Helper()
	for _, topic := range topics {
		var want []int
		for i, p := range patterns {
			if p == (Pattern{}) {
				continue
			}
			yes := reference(strings.Split(p.String(), "."), strings.Split(topic, "."))
			if yes {
				want = append(want, i)
			}
			if p.Match(topic) != yes {
				t.Errorf("pattern %s, topic %q: match %v, want %v", p, topic, !yes, yes)
			}
		}
		got := s.Append(nil, topic)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%q: the set finds %v, want %v", topic, got, want)
		}
	}
}

// reference reports whether the tokens of a pattern match those of a topic, in the simplest way.
func reference(pattern, topic []string) bool {
	switch {
	case len(pattern) == 1 && pattern[0] == ">":
		return len(topic) > 0
	case len(pattern) == 0 || len(topic) == 0:
		return len(pattern) == len(topic)
	}
	return (pattern[0] == "*" || pattern[0] == topic[0]) && reference(pattern[1:], topic[1:])
}

func FuzzMatch(f *testing.F) {
	f.Add("a.*.>", "a.b.c", "a.>")
	f.Add("*", "", ">")
	f.Add("a..b", "a..b", "a.*.b")
	f.Add("a.b", "a.b.", "*.*.*")
	f.Fuzz(func(t *testing.T, text, topic, other string) {
		var patterns []Pattern
		var s Set[int]
		for _, text := range []string{text, other} {
			p, err := Parse(text)
			if err != nil {
				continue
			}
			if again, err := Parse(p.String()); err != nil || again != p {
				t.Errorf("pattern %q parsed again: %v, error %v, want the same pattern", p, again, err)
			}
			s.Add(p, len(patterns))
			patterns = append(patterns, p)
		}
		compare(t, &s, patterns, []string{topic})
		var topics []string
		var names Topics[string]
		for _, text := range []string{topic, other} {
			if p, err := Parse(text); err == nil && !p.Wild() {
				names.Add(text, text)
				topics = append(topics, text)
			}
		}
		for _, p := range patterns {
			compareTopics(t, &names, p, topics)
		}
		if len(patterns) < 2 {
			return
		}
		p, q := patterns[0], patterns[1]
		if p.Match(topic) && q.Match(topic) && !p.Overlaps(q) || q.Match(topic) && !p.Match(topic) && p.Covers(q) {
			t.Errorf("%s and %s, by topic %q: overlap %v, cover %v", p, q, topic, p.Overlaps(q), p.Covers(q))
		}
	})
}

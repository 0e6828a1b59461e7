package engine

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/internal/pattern"
)

// The list of a subscription's names has each name once and is sorted, also after removals.
func TestNamesAreDistinct(t *testing.T) {
	var w topicSet
	add := func(group int, name string) {
		p, err := pattern.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		w.Add(TopicName{Name: name, Group: group, Pattern: p})
	}
	add(0, "a")
	for _, name := range []string{"b.>", "c.>"} {
		for group := range 16 {
			add(group, name)
		}
	}
	first := w.List()[0]
	for _, c := range []struct {
		change func()
		want   []string
	}{
		{func() {}, []string{"a", "b.>", "c.>"}},
		{func() { w.Remove(first) }, []string{"b.>", "c.>"}},
		{func() { w.Add(first) }, []string{"a", "b.>", "c.>"}},
	} {
		if c.change(); !slices.Equal(w.names(), c.want) {
			t.Errorf("names %q, want %q", w.names(), c.want)
		}
	}
}

// The cost of a subscription per topic does not grow with the number of topics.
func TestSubscribeToManyTopics(t *testing.T) {
	_, l := newLoop(t, Config{})
	const n = 4000
	topics := make([]TopicName, n)
	for i := range topics {
		topics[i] = TopicName{Name: fmt.Sprint("topic.", i)}
	}
	if _, err := l.Subscribe([]TopicName{{Name: "x", Group: 0}}, policyAuto, From{}, false, nil); err != nil { // memory for windows
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := l.Subscribe(topics, policyAuto, From{}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close returned %v, want nil", err)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > 8<<10 {
		t.Errorf("%d bytes allocated per topic, want at most %d", each, 8<<10)
	}
	if err := l.do(func() {
		if n := len(l.groups[0].topics); n != 1 {
			t.Errorf("%d topics after Close, want 1", n)
		}
	}); err != nil {
		t.Error(err)
	}
}

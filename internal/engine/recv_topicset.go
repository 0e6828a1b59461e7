package engine

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/ring"
)

// topicSet is the topics and patterns of a subscription. Loop only.
type topicSet struct {
	ring.Set[TopicName]
	groups map[int]*groupTopics // by index
	named  []string             // sorted names; nil: to be made
}

// groupTopics are the topics and patterns in one group.
type groupTopics struct {
	n    int
	wild *pattern.Set[struct{}] // nil: none
	buf  []struct{}
}

// Add adds t. It returns false if t was there.
func (w *topicSet) Add(t TopicName) bool {
	if !w.Set.Add(t) {
		return false
	}
	w.named = nil
	g := w.groups[t.Group]
	if g == nil {
		if w.groups == nil {
			w.groups = make(map[int]*groupTopics)
		}
		g = new(groupTopics)
		w.groups[t.Group] = g
	}
	if g.n++; t.Pattern.Wild() {
		if g.wild == nil {
			g.wild = new(pattern.Set[struct{}])
		}
		g.wild.Add(t.Pattern, struct{}{})
	}
	return true
}

// Remove removes t. It returns false if t was not there.
func (w *topicSet) Remove(t TopicName) bool {
	if !w.Set.Remove(t) {
		return false
	}
	w.named = nil
	g := w.groups[t.Group]
	if t.Pattern.Wild() {
		g.wild.Remove(t.Pattern, struct{}{})
	}
	if g.n--; g.n == 0 {
		delete(w.groups, t.Group)
	}
	return true
}

// names returns the names in order, each once, though a pattern is there once for each of its groups. The slice must
// not be changed.
func (w *topicSet) names() []string {
	if w.named == nil {
		w.named = make([]string, 0, w.Len())
		for _, t := range w.List() {
			w.named = append(w.named, t.Name)
		}
		slices.Sort(w.named)
		w.named = slices.Compact(w.named)
	}
	return w.named
}

// in returns the number of topics and patterns in a group.
func (w *topicSet) in(group int) int {
	if g := w.groups[group]; g != nil {
		return g.n
	}
	return 0
}

// want reports whether a topic of a group is in the set, or matches one of its patterns.
func (w *topicSet) want(group int, topic string) bool {
	if w == nil {
		return false
	}
	if w.Has(TopicName{Name: topic, Group: group}) {
		return true
	}
	g := w.groups[group]
	if g == nil || g.wild == nil {
		return false
	}
	g.buf = g.wild.Append(g.buf[:0], topic)
	return len(g.buf) > 0
}

package sim

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/reliable"
)

// stayState is the part of a subscriber's checks that belongs to its current stay.
type stayState struct {
	*wantedTopics
	evicted  map[int]bool    // readers, by number
	executed map[uint64]bool // requests, by key of the message
	legs     legState
	learns   bool             // names, for patterns
	namesBy  reliable.Instant // latest time when patterns begin; 0: none has waited for names
}

func newStay() stayState {
	return stayState{evicted: make(map[int]bool), executed: make(map[uint64]bool)}
}

// wantedTopics are the topics that a subscriber wants in a stay.
type wantedTopics struct {
	names    int // it wants the first names topics
	patterns []pattern.Pattern
	first    int // number of patterns since the beginning
}

// beginWants registers the stay, also for publishers that do not know of its end.
func (s *subscriber) beginWants() {
	s.wantedTopics = &wantedTopics{names: s.o.Topics}
	s.sim.stays[s.id] = s.wantedTopics
}

// topic reports whether topic number i is wanted.
func (w *wantedTopics) topic(i int) bool { return i < w.names || w.matches(topicNames[i]) }

// always reports whether topic number i has been wanted from the beginning of the stay.
func (w *wantedTopics) always(i int) bool {
	return (&wantedTopics{names: w.names, patterns: w.patterns[:w.first]}).topic(i)
}

// matches reports whether one of the patterns matches the topic.
func (w *wantedTopics) matches(topic string) bool {
	return slices.ContainsFunc(w.patterns, func(p pattern.Pattern) bool { return p.Match(topic) })
}

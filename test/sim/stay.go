package sim

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/reliable"
)

// thisStay is what the checks know of a subscriber's present stay only.
type thisStay struct {
	*wants
	evicted  map[int]bool    // readers, by number
	executed map[uint64]bool // requests, by key of the message
	legs     heardByLegs
	namesBy  reliable.Instant // when patterns begin at the latest; 0: none has waited for names
}

func newStay() thisStay {
	return thisStay{evicted: make(map[int]bool), executed: make(map[uint64]bool)}
}

// wants are the topics that a subscriber wants in a stay.
type wants struct {
	names    int // the first so many topics
	patterns []pattern.Pattern
	first    int // patterns that it has had from its beginning
}

// beginWants notes the stay, also for publishers that have not heard of its end.
func (s *subscriber) beginWants() {
	s.wants = &wants{names: s.o.Topics}
	s.sim.stays[s.id] = s.wants
}

// topic reports whether topic number i is wanted.
func (w *wants) topic(i int) bool { return i < w.names || w.matches(topicNames[i]) }

// always reports whether topic number i has been wanted from the beginning of the stay.
func (w *wants) always(i int) bool {
	return (&wants{names: w.names, patterns: w.patterns[:w.first]}).topic(i)
}

// matches reports whether one of the patterns matches the topic.
func (w *wants) matches(topic string) bool {
	return slices.ContainsFunc(w.patterns, func(p pattern.Pattern) bool { return p.Match(topic) })
}

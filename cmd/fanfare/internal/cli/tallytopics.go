package cli

import (
	"slices"
	"strings"

	"github.com/fanfaremq/fanfare/internal/pattern"
)

// topicTally counts messages by topic, where there are several: those that match patterns
// are known only when they come.
type topicTally struct {
	given   []string // topics and patterns
	unheard map[string]pattern.Pattern
	counts  map[string]*topicCount // nil: one topic, which the whole tally is of
	latest  *topicCount
}

type topicCount struct {
	topic    string
	messages uint64
}

const (
	// maxTopicsListed bounds the summary for programs, maxTopicsShown that for people.
	maxTopicsListed = 10_000
	maxTopicsShown  = 20
)

func (t *topicTally) init(given []string) {
	t.given, t.unheard = given, make(map[string]pattern.Pattern)
	for _, text := range given {
		p, err := pattern.Parse(text) // checked before
		if err != nil {
			continue
		}
		t.unheard[text] = p
		if p.Wild() || len(given) > 1 {
			t.counts = make(map[string]*topicCount)
		}
	}
}

// several reports whether messages of more than one topic may come.
func (t *topicTally) several() bool { return t.counts != nil }

// heard notes that a publisher has a topic.
func (t *topicTally) heard(topic string) {
	delete(t.unheard, topic)
	for text, p := range t.unheard {
		if p.Match(topic) {
			delete(t.unheard, text)
		}
	}
}

// allHeard reports whether each topic and pattern has had one, if there are several.
func (t *topicTally) allHeard() bool { return len(t.given) <= 1 || len(t.unheard) == 0 }

// message counts one.
func (t *topicTally) message(topic string) {
	if t.counts == nil {
		if len(t.unheard) > 0 {
			t.heard(topic)
		}
		return
	}
	c := t.latest
	if c == nil || c.topic != topic {
		if c = t.counts[topic]; c == nil {
			t.heard(topic)
			c = &topicCount{topic: topic}
			t.counts[topic] = c
		}
		t.latest = c
	}
	c.messages++
}

// list is what came of each topic, in the order of their names.
func (t *topicTally) list() []jsonTopicCount {
	var list []jsonTopicCount
	for _, c := range t.counts {
		list = append(list, jsonTopicCount{c.topic, c.messages})
	}
	slices.SortFunc(list, func(a, b jsonTopicCount) int { return strings.Compare(a.Topic, b.Topic) })
	return list[:min(len(list), maxTopicsListed)]
}

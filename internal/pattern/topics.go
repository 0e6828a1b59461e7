package pattern

import (
	"iter"
	"strings"

	"github.com/fanfaremq/fanfare/internal/ring"
)

// Topics maps topics to values, and finds the topics that a pattern matches. Each topic is in lists for its tokens and
// for its prefixes; a look-up scans the shortest of the pattern's lists, so that topics without one of its literal
// tokens cost nothing. The zero Topics is empty. It is not safe for concurrent use.
type Topics[T comparable] struct {
	lists map[place]*ring.Set[T]
}

// place is the token with index n of a topic, or, from the second on, the prefix that ends with it.
type place struct {
	n    int
	text string
}

// places yields the places of a topic, or those that a pattern requires of topics. The complete topic is not a place,
// because only a pattern without a wildcard would require it.
func places(text string) iter.Seq[place] {
	return func(yield func(place) bool) {
		begins := true
		for n, from, more := 0, 0, true; more; n++ {
			var token string
			token, _, more = strings.Cut(text[from:], ".")
			from += len(token)
			if token == one || token == rest {
				begins = false
			} else if !yield(place{n, token}) || begins && more && n > 0 && !yield(place{n, text[:from]}) {
				return
			}
			from++
		}
	}
}

// Add adds a value with its topic.
func (t *Topics[T]) Add(topic string, v T) {
	if t.lists == nil {
		t.lists = make(map[place]*ring.Set[T])
	}
	for at := range places(topic) {
		list := t.lists[at]
		if list == nil {
			list = new(ring.Set[T])
			t.lists[at] = list
		}
		list.Add(v)
	}
}

// Remove removes a value with its topic.
func (t *Topics[T]) Remove(topic string, v T) {
	for at := range places(topic) {
		if list := t.lists[at]; list != nil && list.Remove(v) && list.Len() == 0 {
			delete(t.lists, at)
		}
	}
}

// Append appends the values of the topics that p matches to dst, in no particular order. topic returns the topic of a
// value.
func (t *Topics[T]) Append(dst []T, p Pattern, topic func(T) string) []T {
	for _, v := range t.candidates(p) {
		if p.Match(topic(v)) {
			dst = append(dst, v)
		}
	}
	return dst
}

// candidates returns the values with the rarest of the pattern's places, or all if it has only wildcards.
func (t *Topics[T]) candidates(p Pattern) (values []T) {
	literal := false
	for at := range places(p.text) {
		list := t.lists[at]
		if list == nil {
			return nil
		}
		if !literal || list.Len() < len(values) {
			literal, values = true, list.List()
		}
	}
	if literal {
		return values
	}
	for at, list := range t.lists {
		if at.n == 0 {
			values = append(values, list.List()...)
		}
	}
	return values
}

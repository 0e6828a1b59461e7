package pattern

import (
	"strings"

	"github.com/fanfaremq/fanfare/internal/ring"
)

// Set maps patterns to values, and finds the values with a pattern that matches a topic. It is a trie of tokens: at
// each token of the topic a look-up follows at most two edges, the token and *, so that patterns with other prefixes
// cost nothing. The zero Set is empty. It is not safe for concurrent use.
type Set[T comparable] struct {
	root node[T]
	n    int
}

// node is the trie after some tokens.
type node[T comparable] struct {
	literal map[string]*node[T] // children by the next token
	one     *node[T]            // child for the token *
	rest    ring.Set[T]         // values of patterns that end in > here
	end     ring.Set[T]         // values of patterns that end here
}

// Len returns the number of values in the set.
func (s *Set[T]) Len() int { return s.n }

// Add adds a value with its pattern. The same value may have several patterns, each once.
func (s *Set[T]) Add(p Pattern, v T) {
	if s.root.add(p, v) {
		s.n++
	}
}

func (n *node[T]) add(p Pattern, v T) bool {
	tokens, more := p.text, true
	for more {
		var token string
		token, tokens, more = strings.Cut(tokens, ".")
		if token == rest {
			return n.rest.Add(v)
		}
		next := n.next(token)
		if next == nil {
			next = new(node[T])
			n.set(token, next)
		}
		n = next
	}
	return n.end.Add(v)
}

// Remove removes a value with its pattern. It reports whether the set had it.
func (s *Set[T]) Remove(p Pattern, v T) bool {
	removed := s.root.remove(p.text, v)
	if removed {
		s.n--
	}
	return removed
}

// Append appends the values with a pattern that matches topic to dst, once for each pattern, in no particular order.
func (s *Set[T]) Append(dst []T, topic string) []T { return s.root.match(dst, topic) }

func (n *node[T]) next(token string) *node[T] {
	if token == one {
		return n.one
	}
	return n.literal[token]
}

// set sets the child for a token; nil removes it.
func (n *node[T]) set(token string, next *node[T]) {
	switch {
	case token == one:
		n.one = next
	case next == nil:
		delete(n.literal, token)
	default:
		if n.literal == nil {
			n.literal = make(map[string]*node[T])
		}
		n.literal[token] = next
	}
}

func (n *node[T]) empty() bool {
	return len(n.literal) == 0 && n.one == nil && n.rest.Len() == 0 && n.end.Len() == 0
}

func (n *node[T]) remove(tokens string, v T) bool {
	token, tokens, more := strings.Cut(tokens, ".")
	if token == rest {
		return n.rest.Remove(v)
	}
	next := n.next(token)
	if next == nil {
		return false
	}
	var removed bool
	if more {
		removed = next.remove(tokens, v)
	} else {
		removed = next.end.Remove(v)
	}
	if next.empty() {
		n.set(token, nil)
	}
	return removed
}

func (n *node[T]) match(dst []T, topic string) []T {
	dst = append(dst, n.rest.List()...)
	token, topic, more := strings.Cut(topic, ".")
	for _, next := range [...]*node[T]{n.literal[token], n.one} {
		switch {
		case next == nil:
		case more:
			dst = next.match(dst, topic)
		default:
			dst = append(dst, next.end.List()...)
		}
	}
	return dst
}

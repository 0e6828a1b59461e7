// Package pattern has the patterns of subscriptions and of the mapping of topics to groups: tokens separated by dots,
// of which * matches any one token and >, which must be last, one or more.
//
//	md.*.AAPL     md.xnas.AAPL, but not md.AAPL or md.xnas.AAPL.trades
//	md.>          md.xnas and md.xnas.AAPL, but not md
//	>             every topic
//
// These are the wildcards of NATS subjects. A pattern without one matches only the topic with the same text.
// docs/protocol §3.13.
package pattern

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// MaxLen is the maximum length of a pattern in bytes, the same as that of a topic.
const MaxLen = wire.MaxTopicName

// The wildcards.
const (
	one  = "*" // any one token
	rest = ">" // one token or more, up to the end
)

// Pattern matches topics. Parse makes it; the zero Pattern matches only the empty string, which is not a topic.
// Patterns are comparable: equal ones have the same text.
type Pattern struct {
	text    string
	literal int // tokens before the first wildcard
	wild    bool
}

// Error describes an invalid pattern.
type Error struct {
	Text   string // the pattern, truncated if it is too long
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("pattern %q: %s", e.Text, e.Reason) }

// shownLen is the number of bytes of a too long text in an Error.
const shownLen = 32

// Parse parses a pattern: valid UTF-8 of 1 to MaxLen bytes, with nonempty tokens separated by single dots, without
// white space and invisible characters. Errors are an *Error.
func Parse(text string) (Pattern, error) {
	switch {
	case text == "":
		return Pattern{}, &Error{text, "it is empty"}
	case len(text) > MaxLen:
		return Pattern{}, &Error{strings.ToValidUTF8(text[:shownLen], "") + "…", fmt.Sprintf("it is longer than %d bytes", MaxLen)}
	}
	p := Pattern{text: text}
	for tokens, more := text, true; more; {
		var token string
		token, tokens, more = strings.Cut(tokens, ".")
		if reason := checkToken(token, !more); reason != "" {
			return Pattern{}, &Error{text, reason}
		}
		switch {
		case token == one || token == rest:
			p.wild = true
		case !p.wild:
			p.literal++
		}
	}
	return p, nil
}

// checkToken returns what is wrong with a token, or "".
func checkToken(token string, last bool) string {
	switch {
	case token == "":
		return "it has an empty token: tokens are separated by single dots"
	case token == one, token == rest && last:
		return ""
	case token == rest:
		return "> matches all following tokens, and must be the last one"
	}
	for _, r := range token {
		switch {
		case r == '*' || r == '>':
			return fmt.Sprintf("%c is a wildcard, and must be a token by itself", r)
		case r == utf8.RuneError || !unicode.IsPrint(r) || r == ' ':
			return "it contains white space, invisible or control characters, or invalid UTF-8"
		}
	}
	return ""
}

// String returns the pattern's text.
func (p Pattern) String() string { return p.text }

// Wild reports whether the pattern has a wildcard. Without one it matches only the topic String().
func (p Pattern) Wild() bool { return p.wild }

// Literal returns the number of tokens before the first wildcard.
func (p Pattern) Literal() int { return p.literal }

// Match reports whether the pattern matches a topic. Topics are not checked: empty tokens are matched like others.
func (p Pattern) Match(topic string) bool {
	if !p.wild {
		return p.text == topic
	}
	return walk(p.text, topic, func(want, token string) verdict {
		switch want {
		case rest:
			return yes
		case one, token:
			return undecided
		}
		return no
	})
}

// Overlaps reports whether some topic matches both patterns.
func (p Pattern) Overlaps(q Pattern) bool {
	return walk(p.text, q.text, func(a, b string) verdict {
		switch {
		case a == rest || b == rest:
			return yes
		case a != b && a != one && b != one:
			return no
		}
		return undecided
	})
}

// Covers reports whether every topic that q matches also matches p.
func (p Pattern) Covers(q Pattern) bool {
	return walk(p.text, q.text, func(a, b string) verdict {
		switch {
		case a == rest:
			return yes
		case b == rest || a != one && a != b:
			return no
		}
		return undecided
	})
}

// verdict is the result of comparing a pair of tokens.
type verdict uint8

const (
	undecided verdict = iota // the next tokens decide; at the end both match
	yes
	no
)

// walk compares two texts token by token.
func walk(p, q string, compare func(a, b string) verdict) bool {
	var a, b string
	pMore, qMore := true, true
	for pMore && qMore {
		a, p, pMore = strings.Cut(p, ".")
		b, q, qMore = strings.Cut(q, ".")
		if v := compare(a, b); v != undecided {
			return v == yes
		}
	}
	return pMore == qMore
}

// Head returns the text of the first n tokens of a topic or pattern, n at least 1, and whether it has that many.
func Head(text string, n int) (head string, ok bool) {
	for i := range len(text) {
		if text[i] == '.' {
			if n--; n == 0 {
				return text[:i], true
			}
		}
	}
	return text, n == 1
}

// NameOf returns the name of a topic in a packet. It returns false if the name is invalid or does not have this id,
// because packets may be forged. docs/protocol §3.6, §3.9.
func NameOf(id uint64, said []byte) (name string, ok bool) {
	name = string(said)
	p, err := Parse(name)
	return name, err == nil && !p.Wild() && wire.TopicID(name) == id
}

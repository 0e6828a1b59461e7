package pubsub

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

// CheckTopic says what is wrong with a topic name, with a *TopicError, before
// anything is opened for it. A topic is valid UTF-8 of at most 255 bytes: tokens
// separated by single dots, none of them empty, without white space, control or other
// invisible characters, and without * and >, which are reserved for wildcards.
// docs/protocol.md §3.9.
func CheckTopic(name string) error {
	switch {
	case name == "":
		return &TopicError{name, "it is empty", nil}
	case len(name) > wire.MaxTopicName:
		return &TopicError{name[:32] + "…", "it is longer than 255 bytes", nil}
	}
	for token := range strings.SplitSeq(name, ".") {
		switch token {
		case "":
			return &TopicError{name, "it has an empty token: tokens are separated by single dots", nil}
		case "*", ">":
			return &TopicError{name, "wildcards are not supported yet: name each topic", ErrWildcard}
		}
	}
	for _, r := range name {
		switch {
		case r == '*' || r == '>':
			return &TopicError{name, "* and > are reserved for wildcards", nil}
		case r == ' ' || r == utf8.RuneError || !unicode.IsPrint(r):
			return &TopicError{name, "it holds white space, invisible or control characters, or invalid UTF-8", nil}
		}
	}
	return nil
}

// groupOf maps a topic to one of groups groups: the same on every host. docs/protocol.md §3.10.
func groupOf(name string, groups int) int {
	return int(reliable.TopicID(name) % uint64(groups))
}

package pubsub

import (
	"errors"

	"github.com/fanfaremq/fanfare/internal/pattern"
)

// CheckTopic says what is wrong with a topic name, with a *TopicError, before
// anything is opened for it. A topic is valid UTF-8 of at most 255 bytes: tokens
// separated by single dots, none of them empty, without white space, control or other
// invisible characters, and without * and >, which are reserved for wildcards.
// docs/protocol.md §3.9.
func CheckTopic(name string) error {
	p, err := pattern.Parse(name)
	var wrong *pattern.Error
	switch {
	case errors.As(err, &wrong):
		return &TopicError{wrong.Text, wrong.Reason, nil}
	case p.Wild():
		return &TopicError{name, "wildcards are not supported yet: name each topic", ErrWildcard}
	}
	return nil
}

package pubsub

import (
	"errors"

	"github.com/fanfaremq/fanfare/internal/pattern"
)

// CheckTopic returns a *TopicError if name is not a valid topic, nil otherwise. A topic is valid UTF-8 of at most 255
// bytes: tokens separated by single dots, none of them empty, without white space, control or other invisible
// characters, and without * and >, which are wildcards (CheckPattern). docs/protocol §3.9.
func CheckTopic(name string) error {
	p, err := parsePattern(name)
	if err == nil && p.Wild() {
		return &TopicError{name, "* and > are wildcards, which only subscriptions may have: name one topic", ErrWildcard}
	}
	return err
}

// CheckPattern returns a *TopicError if text is neither a valid topic nor a valid pattern, nil otherwise. In a
// pattern the token * stands for any one token, and the token >, which must be the last, for one or more:
//
//	md.*.AAPL     md.xnas.AAPL, but not md.AAPL or md.xnas.AAPL.trades
//	md.>          md.xnas and md.xnas.AAPL, but not md
//	>             every topic
//
// Patterns cover at most 131,072 topics of each group at a time (Bus.Subscribe).
//
// docs/protocol §3.13.
func CheckPattern(text string) error {
	_, err := parsePattern(text)
	return err
}

// parsePattern reads a topic or pattern.
func parsePattern(text string) (pattern.Pattern, error) {
	p, err := pattern.Parse(text)
	var wrong *pattern.Error
	if errors.As(err, &wrong) {
		return p, &TopicError{wrong.Text, wrong.Reason, nil}
	}
	return p, err
}

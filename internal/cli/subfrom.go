package cli

import (
	"errors"

	"github.com/fanfaremq/fanfare/pubsub"
)

// fromWord is what -from takes.
type fromWord string

const (
	fromLive   fromWord = "live"
	fromWindow fromWord = "window"
	fromNumber fromWord = "N"
)

// checkFrom says what is wrong with -from.
func (s *sub) checkFrom() error {
	start, err := pubsub.ParseStart(string(s.from))
	if err != nil {
		return usagef("-from %s: it must be live, window or a message number", s.from)
	}
	for _, t := range s.topics {
		if start > pubsub.Window && errors.Is(pubsub.CheckTopic(t), pubsub.ErrWildcard) {
			return usagef("-from %s is a number of each topic's own, and %q is a pattern: name the topics, or say -from window", s.from, t)
		}
	}
	return nil
}

// fromOption is that of -from, which was checked.
func (s *sub) fromOption() pubsub.SubscribeOption {
	start, _ := pubsub.ParseStart(string(s.from))
	return pubsub.From(start)
}

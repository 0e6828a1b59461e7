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
	fromState  fromWord = "state"
	fromNumber fromWord = "N"
)

// checkFrom says what is wrong with -from.
func (s *sub) checkFrom() error {
	start, err := pubsub.ParseStart(string(s.from))
	if err != nil {
		return usagef("-from %s: it must be live, window, state or a message number", s.from)
	}
	numbered := start != pubsub.Live && start != pubsub.Window && start != pubsub.State
	for _, t := range s.topics {
		if numbered && errors.Is(pubsub.CheckTopic(t), pubsub.ErrWildcard) {
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

// stateRecord writes what comes of a topic's state, as messages that have no number of their own:
// where the messages go, too.
func (s *sub) stateRecord(m *pubsub.Message) error {
	if m.IsStateEnd() {
		return s.emit(&jsonState{Type: "state_end", Topic: m.Topic, Next: m.Number, Publisher: m.Publisher().String()})
	}
	if s.json && s.out == "" {
		out := jsonState{Type: "state", Topic: m.Topic, Next: m.Number, Publisher: m.Publisher().String()}
		var data jsonMessage
		data.set(m.Data)
		out.Data, out.DataBase64 = data.Data, data.DataBase64
		if err := s.emit(&out); err != nil {
			return err
		}
	} else if err := s.sink.write(m); err != nil {
		return err
	}
	if s.tally.record(m); s.tally.came() == s.most {
		s.finished = endCount
	}
	return nil
}

// noState tells that a topic begins without state: what is written lacks its beginning, unless
// it begins with message 0.
func (s *sub) noState(err *pubsub.StateError) error {
	s.tally.noState(err)
	s.e.console.line("%v", err)
	return s.emit(&jsonState{Type: "no_state", Topic: err.Topic, Cause: err.Cause.String(), Publisher: err.Publisher.String()})
}

// jsonState is a record of a topic's state, its end, or that there is none.
type jsonState struct {
	Type       string  `json:"type"`
	Topic      string  `json:"topic"`
	Next       uint64  `json:"next"` // number of the first message that is not in the state
	Publisher  string  `json:"publisher"`
	Data       *string `json:"data,omitempty"`
	DataBase64 []byte  `json:"data_base64,omitempty"`
	Cause      string  `json:"cause,omitempty"`
}

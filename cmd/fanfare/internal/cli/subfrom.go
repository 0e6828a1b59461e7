package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/fanfaremq/fanfare/internal/outfile"
	"github.com/fanfaremq/fanfare/pubsub"
)

type fromWord string

const (
	fromLive   fromWord = "live"
	fromWindow fromWord = "window"
	fromState  fromWord = "state"
	fromFile   fromWord = "file:FILE"
)

// resume is where a sub begins that goes on from a file, and what it writes there when it ends.
type resume struct {
	positions pubsub.Positions
	file      *outfile.File // nil: it goes on from no file
}

func (w fromWord) file() (path string, ok bool) { return strings.CutPrefix(string(w), "file:") }

func (s *sub) fromOption() pubsub.SubscribeOption {
	if s.resume.file != nil {
		return pubsub.From(&s.resume.positions)
	}
	start, _ := pubsub.ParseStart(string(s.from))
	return pubsub.From(start)
}

// openPositions reads the positions of -from, if there are any yet.
func (s *sub) openPositions() error {
	path, ok := s.from.file()
	if !ok {
		return nil
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &s.resume.positions)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		s.resume.file, err = outfile.Create(path, 0o644)
	}
	if err != nil {
		return fmt.Errorf("-from %s: %w", s.from, pathError(err))
	}
	return nil
}

// delivered takes in what is written, or was told.
func (s *sub) delivered(m pubsub.Message, err error) {
	if s.resume.file != nil {
		s.resume.positions.Add(m, err)
	}
}

// keep writes the positions, when all that is before them is written.
func (r *resume) keep() error {
	if r.file == nil {
		return nil
	}
	data, err := json.Marshal(r.positions)
	if err == nil {
		err = r.file.Put(append(data, '\n'))
	}
	return cmp.Or(err, r.file.Close())
}

func (s *sub) stateRecord(m *pubsub.Message) error {
	if m.IsStateEnd() {
		return s.emit(&jsonState{Type: "state_end", Topic: m.Topic, Next: m.Number, Publisher: m.Publisher().String()})
	}
	if s.json && s.out == "" {
		if err := s.emit(&jsonState{Type: "state", Topic: m.Topic, Next: m.Number, Publisher: m.Publisher().String(), jsonData: dataAsJSON(m.Data)}); err != nil {
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
	Type      string `json:"type"`
	Topic     string `json:"topic"`
	Next      uint64 `json:"next"` // number of the first message that is not in the state
	Publisher string `json:"publisher"`
	jsonData
	Cause string `json:"cause,omitempty"`
}

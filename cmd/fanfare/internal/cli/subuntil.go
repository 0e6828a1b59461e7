package cli

import (
	"strings"
	"time"
)

// untilWord is the value of sub's -until: a time, or the end of all publishers.
type untilWord struct {
	after time.Duration // 0: no limit
	end   bool
}

func parseUntil(text string) (untilWord, error) {
	if text == "end" {
		return untilWord{end: true}, nil
	}
	d, err := time.ParseDuration(text)
	return untilWord{after: d}, err
}

func (u untilWord) String() string {
	switch {
	case u.end:
		return "end"
	case u.after == 0:
		return ""
	}
	return u.after.String()
}

// noPublisherAfter is long enough for the announcements of publishers that are there.
const noPublisherAfter = 5 * time.Second

// reportNoPublisher reports after noPublisherAfter that no publisher of the topics was detected. The
// returned function ends the wait.
func (s *sub) reportNoPublisher() (stop func()) {
	if s.quiet {
		return func() {}
	}
	timer := time.AfterFunc(noPublisherAfter, func() {
		if !s.detected() {
			s.e.console.line("no publisher of %s detected for %v: is one running, with the same -t? fanfare doctor checks this host, and its -peer the network",
				s.topicsText(), noPublisherAfter)
		}
	})
	return func() { timer.Stop() }
}

// detected reports whether a publisher of the topics is or was there.
func (s *sub) detected() bool {
	if s.tally.shown.messages.Load() > 0 || s.tally.shown.gapCount.Load() > 0 {
		return true
	}
	for _, p := range s.s.Stats().Publishers {
		if p.Relevant {
			return true
		}
	}
	return false
}

func (s *sub) topicsText() string {
	if len(s.topics) > 3 {
		return "these " + count(len(s.topics), "topic")
	}
	return strings.Join(s.topics, ", ")
}

package discovery

import (
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// search decides when a bus receives hellos in group 0: briefly, at increasing intervals, while it subscribes to a
// topic of which no publisher was detected (docs/protocol §14.3).
type search struct {
	on   bool
	asks bool             // missing is about to ask publishers
	due  reliable.Instant // time of the next step
	end  reliable.Instant // end of the current search
	wait time.Duration
}

const (
	// searchAfter is the time in which publishers should be detected without a search. searchFor is the length of a
	// search, in which two hellos are sent.
	searchAfter = time.Second
	searchFor   = 2 * time.Second
	// searchAgain is the first interval between searches, searchRarely the longest.
	searchAgain  = 5 * time.Second
	searchRarely = 30 * time.Second
	// searchCheck is the interval at which a search checks whether it is still needed.
	searchCheck = 100 * time.Millisecond
)

// begin restarts the search, for newly subscribed topics.
func (s *search) begin(now reliable.Instant) {
	s.wait = searchAgain
	if !s.on {
		s.asks, s.due = true, now.Add(searchAfter/2)
	}
}

// tick does what is due. missing reports whether a topic has no publisher. It asks publishers for their topics, so the
// first call precedes the search.
func (s *search) tick(now reliable.Instant, missing func() bool) {
	if now < s.due {
		return
	}
	switch needed := missing(); {
	case s.on && (!needed || now >= s.end):
		s.on = false
		s.due = now.Add(s.wait)
		s.wait = min(2*s.wait, searchRarely)
	case s.on:
		s.due = min(s.end, now.Add(searchCheck))
	case needed && s.asks:
		s.asks, s.due = false, now.Add(searchAfter/2)
	case needed:
		s.on, s.end = true, now.Add(searchFor)
		s.due = now.Add(searchCheck)
	default:
		s.due, s.wait = now.Add(searchAgain), searchAgain
	}
}

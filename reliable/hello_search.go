package reliable

import "time"

// search decides when a bus listens to hellos in group 0: for a moment, and more and
// more rarely, while it subscribes to a topic without having heard a publisher of it
// (docs/protocol.md §14.3).
type search struct {
	on   bool
	due  Instant // when to look again
	end  Instant // of the search that is on
	wait time.Duration
}

const (
	// searchAfter is how long publishers are given to be heard, searchFor how long a
	// search lasts: two hellos' distance.
	searchAfter = time.Second
	searchFor   = 2 * time.Second
	// searchAgain is the first distance between two searches, and searchRarely the
	// longest.
	searchAgain  = 5 * time.Second
	searchRarely = 30 * time.Second
	// searchLook is how often a search looks whether it is still needed.
	searchLook = 100 * time.Millisecond
)

// begin notes that something is wanted anew.
func (s *search) begin(now Instant) {
	s.wait = searchAgain
	if !s.on {
		s.due = now.Add(searchAfter)
	}
}

// tick looks whether to search. missing reports whether a topic has no publisher.
func (s *search) tick(now Instant, missing func() bool) {
	if now < s.due {
		return
	}
	switch needed := missing(); {
	case s.on && (!needed || now >= s.end):
		s.on = false
		s.due = now.Add(s.wait)
		s.wait = min(2*s.wait, searchRarely)
	case s.on:
		s.due = min(s.end, now.Add(searchLook))
	case needed:
		s.on, s.end = true, now.Add(searchFor)
		s.due = now.Add(searchLook)
	default:
		s.due, s.wait = now.Add(searchAgain), searchAgain
	}
}

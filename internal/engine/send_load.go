package engine

import (
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// load measures how far apart the sends of a bus begin, whoever makes them: beside what one takes, that is the part of the
// time that goes to sending. It is smoothed over many, so that a burst is not taken for it. Under batcher.mu.
type load struct {
	apart time.Duration    // smoothed
	began reliable.Instant // the last send
}

const (
	// loadShare is the weight of the past in what is smoothed: 63 in 64.
	loadShare = 64
	// loadMost is the most that one pause counts for, in times that a send takes: so it takes some hundred sends in a row
	// until what lay before a burst is forgotten.
	loadMost = 256
)

// took notes a send that began then; one takes so long.
func (l *load) took(began reliable.Instant, cost time.Duration) {
	l.apart += (min(began.Sub(l.began), loadMost*cost) - l.apart) / loadShare
	l.began = max(l.began, began)
}

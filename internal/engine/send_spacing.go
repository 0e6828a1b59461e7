package engine

import "time"

// spacing measures how far apart a bus makes its messages while no send holds it up. How long
// a publisher pauses behind a send does not tell that: so it is noted only where no send
// lies between two messages, as within a train.
//
// Where messages come in a tight loop a short pause is a hiccup: of the processor, or of a
// cache. The train goes on behind it. Under batcher.mu.
type spacing struct {
	apart time.Duration // from message to message, smoothed; at first as if sends took all the time
	noted int           // times since it was doubted, up to spacingShare
}

const (
	// spacingShare is the weight of the past in what is smoothed: 7 in 8.
	spacingShare = 8
	// spacingMost is the most that one pause counts for, in times that a send takes: one hiccup is
	// no habit.
	spacingMost = 2
	// tightIn is how much closer than would make a bus busy messages of a tight loop come.
	tightIn = 4
	// mostHiccup is how long a pause in a tight loop may be and count as a hiccup, if messages may
	// wait that long.
	mostHiccup = 50 * time.Microsecond
	// doubtIn is how close behind a send a message comes, as part of what would make a bus busy, that was
	// probably held up by the send: then they may come closer than they did.
	doubtIn = 16
)

// note takes in that the next message came so much later, and no send lay between.
func (s *spacing) note(gap, cost time.Duration) {
	s.apart += (min(gap, spacingMost*cost) - s.apart) / spacingShare
	s.noted = min(s.noted+1, spacingShare)
}

// tight reports whether messages come in a tight loop: busy is how far apart they may be to
// make a bus busy.
func (s *spacing) tight(busy time.Duration) bool { return s.apart < busy/tightIn }

// paced reports whether messages come further apart than a send takes: sends can follow.
func (s *spacing) paced(cost time.Duration) bool { return s.noted >= spacingShare && s.apart > cost }

// behind notes that a message came so much later than a send ended, of a bus that is busy by that. One that was held
// up by the send raises a doubt: the next has to be measured.
func (s *spacing) behind(gap, busy time.Duration) {
	if gap < busy/doubtIn {
		s.noted = max(0, s.noted-1)
	}
}

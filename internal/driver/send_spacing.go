package driver

import "time"

// spacing measures how far apart a bus makes its messages while no send holds it up, and
// decides by that whether each may leave by itself although it comes close behind a send.
// Under batcher.mu.
//
// How long a publisher pauses behind a send does not tell that. Who publishes every 20 µs and
// sends for 16 pauses for 4; so does who needs 4 µs for each message and goes on as soon
// as it is sent, and he publishes four times as much where his messages share trains.
// Between two messages of which the first waits, no send lies: they come 20 µs apart
// with one, and 4 with the other. So one message in probeEvery waits, and tells.
//
// Where messages come in a tight loop a short pause is a hiccup: of the processor, or of a
// cache. The train goes on behind it.
type spacing struct {
	apart  time.Duration // from message to message, smoothed; at first as if sends took all the time
	singly int           // messages in a row that left by themselves for it
}

const (
	// spacingShare is the weight of the past in what is smoothed: 7 in 8.
	spacingShare = 8
	// spacingMost is the most that one pause counts for, in times that a send takes: one hiccup is
	// no habit.
	spacingMost = 2
	// spacingRoom is what messages have to be further apart than a send takes: one part in so many of it.
	spacingRoom = 8
	// tightIn is how much closer than would make a bus busy messages of a tight loop come.
	tightIn = 4
	// mostHiccup is how long a pause in a tight loop may be and count as a hiccup, if messages may
	// wait that long.
	mostHiccup = 50 * time.Microsecond
	// probeEvery is one message in how many that waits for the next one.
	probeEvery = 64
)

// note takes in that the next message came so much later, and no send lay between.
func (s *spacing) note(gap, cost time.Duration) {
	s.apart += (min(gap, spacingMost*cost) - s.apart) / spacingShare
}

// waited takes in that n messages came while the first of them waited for so long. The n-th
// came somewhere between the n-1st part of it and the end.
func (s *spacing) waited(n uint64, long, cost time.Duration) {
	s.note(2*long/time.Duration(2*n-1), cost)
}

// wide reports whether messages are so far apart that each can be sent by itself.
func (s *spacing) wide(cost time.Duration) bool { return s.apart > cost+cost/spacingRoom }

// tight reports whether messages come in a tight loop: busy is how far apart they may be to
// make a bus busy.
func (s *spacing) tight(busy time.Duration) bool { return s.apart < busy/tightIn }

// slack is what is left of the time between two messages when the first was sent.
func (s *spacing) slack(cost time.Duration) time.Duration { return s.apart - cost }

// probes notes a message that could leave by itself, and reports whether it waits, to tell.
func (s *spacing) probes() bool {
	s.singly = (s.singly + 1) % probeEvery
	return s.singly == 0
}

package discovery

import (
	"math/rand/v2"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// helloSchedule decides when a bus sends a hello to group 0 (docs/protocol §14.2).
type helloSchedule struct {
	due    reliable.Instant
	last   reliable.Instant // when the last one was sent
	rounds int              // number of sent rounds, each with one hello per leg
	on     bool
	legs   int
	leg    int // the next leg in this round
}

const (
	// helloEvery is the interval of hellos, with a jitter of a tenth. helloSoon is the shortest interval.
	helloEvery = time.Second
	helloSoon  = 100 * time.Millisecond
)

// helloFirst has the times of the first hellos after the first publication.
var helloFirst = [...]time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond}

func (s *helloSchedule) begin(now reliable.Instant) {
	if !s.on {
		s.on, s.due = true, now.Add(helloFirst[0])
	}
}

// hurry makes the next hello due as soon as helloSoon allows.
func (s *helloSchedule) hurry(now reliable.Instant) {
	s.begin(now)
	if s.rounds > 0 {
		s.due = min(s.due, max(now, s.last.Add(helloSoon)))
	}
}

// end makes the first hello due if the bus ends before it was sent.
func (s *helloSchedule) end(now reliable.Instant) {
	if s.rounds == 0 {
		s.on, s.due = true, now
	}
}

// retry schedules a hello again that could not be sent.
func (s *helloSchedule) retry(now reliable.Instant) {
	if soon := now.Add(helloSoon); s.due <= now || s.due > soon {
		s.due = soon
	}
	s.leg = (s.leg + s.legs - 1) % s.legs
}

// next returns the leg of a hello to send now, and schedules the following one.
func (s *helloSchedule) next(now reliable.Instant, rnd *rand.Rand) (leg int, ok bool) {
	if !s.on || now < s.due {
		return 0, false
	}
	leg, s.last = s.leg, now
	if s.leg++; s.leg < s.legs {
		return leg, true // the other legs of the round follow immediately
	}
	s.leg = 0
	s.rounds++
	if s.rounds < len(helloFirst) {
		s.due = now.Add(helloFirst[s.rounds] - helloFirst[s.rounds-1])
	} else {
		s.due = now.Add(helloEvery*9/10 + time.Duration(rnd.Int64N(int64(helloEvery/5))))
	}
	return leg, true
}

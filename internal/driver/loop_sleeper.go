package driver

import (
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/reliable"
)

// sleeper is how the loop sleeps, and how others make it run earlier than it meant to.
//
// The loop announces until when it will sleep before it looks at kick for the last time. So
// one who needs it earlier either has its kick seen, or sees that the loop sleeps too long,
// and wakes it: a system call only then.
type sleeper struct {
	transport func()       // ends a sleep in the transport
	until     atomic.Int64 // when the sleep ends that was announced; 0: the loop runs
	kick      atomic.Bool  // look once more before you sleep
	// A loop at rest waits for end or timer, and not in the transport.
	resting atomic.Bool
	end     chan struct{}
	timer   *time.Timer // loop only
}

func newSleeper(transport func()) sleeper {
	return sleeper{transport: transport, end: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
}

// awake says that the loop runs. Loop only.
func (s *sleeper) awake() { s.until.Store(0) }

// kicked reports whether somebody wants the loop to look once more. Loop only.
func (s *sleeper) kicked() bool { return s.kick.Load() && s.kick.Swap(false) }

// announce says that the loop is about to sleep until then, at rest or in the transport. It
// reports false when it has to look once more first. Loop only.
func (s *sleeper) announce(until reliable.Instant, rest bool) bool {
	s.resting.Store(rest)
	s.until.Store(int64(until))
	return !s.kick.Swap(false)
}

// rest sleeps for that long, outside of the transport. Loop only.
func (s *sleeper) rest(wait time.Duration) {
	s.timer.Reset(wait)
	select {
	case <-s.timer.C:
	case <-s.end:
	}
}

// wakeBy makes sure that the loop looks at the world at due or before.
func (s *sleeper) wakeBy(due reliable.Instant) {
	until := s.until.Load()
	if until != 0 && until <= int64(due) {
		return // it sleeps, and not too long
	}
	s.kick.Store(true)
	if s.until.Load() > int64(due) {
		s.wake()
	}
}

// endRest ends the loop's rest, for one who waits for what it will read.
func (s *sleeper) endRest() {
	if s.resting.Load() {
		s.wakeBy(0)
	}
}

// wake ends the loop's sleep, wherever it sleeps.
func (s *sleeper) wake() {
	if !s.resting.Load() {
		s.transport()
		return
	}
	select {
	case s.end <- struct{}{}:
	default:
	}
}

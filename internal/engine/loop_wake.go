package engine

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/reliable"
)

// How the loop sleeps, as waitPolicy decides, and how other goroutines wake it.

// spin polls until something arrives or the loop has another reason to run. Then it returns true and the time, and what
// has arrived is in the batch. It returns false when it is time to park.
func (l *Loop) spin(now, deadline reliable.Instant) (polled bool, at reliable.Instant, err error) {
	until, ok := l.waits.spinUntil(now)
	if !ok {
		return false, now, nil
	}
	begun := now
	for {
		if err := l.poll(now); err != nil {
			return false, now, err
		}
		if len(l.inbox.batch.Trains) > 0 || len(l.inbox.batch.Events) > 0 || l.kicked() {
			now = l.now()
			l.waits.spun(now.Sub(begun), true)
			return true, now, nil
		}
		if now = l.now(); now >= deadline {
			l.waits.spun(now.Sub(begun), false)
			return true, now, nil
		}
		if now >= until {
			l.waits.spun(now.Sub(begun), false)
			return !l.waits.parks(), now, nil
		}
		if l.waits.yields(now) {
			runtime.Gosched()
		}
	}
}

// sleep waits for packets, a command or the deadline.
func (l *Loop) sleep(deadline reliable.Instant) {
	if l.giveWay() {
		return
	}
	rest := l.waits.rests(l.now(), deadline, l.unneeded)
	if !l.announce(deadline, rest) {
		return
	}
	begun := l.now()
	wait := min(deadline.Sub(begun), longestSleep)
	if wait <= 0 {
		runtime.Gosched() // another goroutine may need the processor
		return
	}
	if rest {
		l.rest(wait)
		return
	}
	if err := l.t.Wait(wait); err != nil && !errors.Is(err, net.ErrClosed) {
		l.say(&report.WaitFailed, "err", err)
	}
	l.inbox.lain.Waited(l.now().Sub(begun), wait)
}

// longestSleep is how long the loop sleeps at a time. Afterwards it finds out whether its process was stopped meanwhile
// (transport.Unread).
const longestSleep = time.Minute

// wakes are the goroutines that the loop wakes. Loop only.
type wakes struct {
	woken   []*Subscription // to be woken at the end of the turn
	readied bool            // woken goroutines may not have had a processor yet
	// processors is GOMAXPROCS at Open. With 1 a goroutine that yields may wait 10 ms for each runnable goroutine, so
	// the loop does not yield.
	processors int
}

// giveWay yields to the goroutines that the loop has woken, before the loop sleeps. They are next on the loop's P of
// Go's scheduler. If the loop's thread blocks in the transport it keeps that P until the scheduler's monitor takes it
// away, 20 µs later or more; after yielding the loop continues on another P, if there is one. giveWay reports whether
// it yielded: packets may have come meanwhile. Loop only.
func (l *Loop) giveWay() bool {
	if !l.readied {
		return false
	}
	if l.readied = false; l.processors < 2 {
		return false
	}
	runtime.Gosched()
	return true
}

// do runs f on the loop and waits for it. It returns closedError when the loop has ended, and ErrInHandler where the
// loop waits for its caller.
func (l *Loop) do(f func()) error {
	if l.watchdog.within() {
		return ErrInHandler
	}
	finished := make(chan struct{})
	if err := l.post(func() { f(); close(finished) }); err != nil {
		return err
	}
	if l.await(finished, l.shutdown.done, nil) == 0 {
		return nil
	}
	select {
	case <-finished:
		return nil
	default:
		return l.closedError()
	}
}

// post runs f on the loop soon. It fails only if the loop has ended.
func (l *Loop) post(f func()) error {
	if l.Ended() {
		return l.closedError()
	}
	l.commands.add(f)
	l.wakeBy(0)
	return nil
}

// commandsFor is how long a turn waits for further commands: about as long as 20 of them take.
const commandsFor = 200 * time.Microsecond

// commands are functions that other goroutines post to the loop.
type commands struct {
	mu     sync.Mutex
	list   []func()    // under mu
	resume atomic.Bool // a cursor has caught up: resume streams
}

func (c *commands) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, f)
}

// run runs the posted commands. It reports whether there were any. Loop only.
func (c *commands) run() bool {
	c.mu.Lock()
	run := c.list
	c.list = nil
	c.mu.Unlock()
	for _, f := range run {
		f()
	}
	return len(run) > 0
}

func (l *Loop) runCommands() bool {
	any := l.commands.run()
	if any {
		begun := l.now()
		for more := true; more; { // callers often post the next command at once, and a turn for each would take longer
			l.readied = true
			more = l.now().Sub(begun) < commandsFor && l.giveWay() && l.commands.run()
		}
	}
	if !l.commands.resume.Swap(false) {
		return any
	}
	now := l.now()
	for _, g := range l.receiving {
		g.tendLogs(now)
		g.r.Resume(now)
	}
	return true
}

// unneeded reports whether nothing can come that the loop must handle at once: there are no subscriptions, and
// publishers do what is due themselves.
func (l *Loop) unneeded() bool {
	if len(l.receiving) > 0 {
		return false
	}
	for _, p := range l.publications() {
		if !p.selfDriven {
			return false
		}
	}
	return true
}

// sleeper is how the loop sleeps, and how other goroutines wake it early.
//
// The loop announces the end of its sleep before it checks kick for the last time. A goroutine that needs the loop
// earlier sets kick. Then either the loop sees it, or the goroutine sees that the announced sleep is too long and wakes
// the loop; only that takes a system call.
type sleeper struct {
	transport func()       // ends a sleep in the transport
	until     atomic.Int64 // announced end of the sleep; 0: the loop runs
	kick      atomic.Bool  // the loop must look once more before it sleeps
	// A resting loop waits for end or timer, not in the transport.
	resting atomic.Bool
	end     chan struct{}
	timer   *time.Timer // loop only
}

func newSleeper(transport func()) sleeper {
	return sleeper{transport: transport, end: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
}

// awake records that the loop runs. Loop only.
func (s *sleeper) awake() { s.until.Store(0) }

// kicked reports whether the loop must look once more. Loop only.
func (s *sleeper) kicked() bool { return s.kick.Load() && s.kick.Swap(false) }

// announce announces a sleep until then, at rest or in the transport. It returns false if the loop must look once more
// first. Loop only.
func (s *sleeper) announce(until reliable.Instant, rest bool) bool {
	s.resting.Store(rest)
	s.until.Store(int64(until))
	return !s.kick.Swap(false)
}

// rest sleeps outside the transport. Loop only.
func (s *sleeper) rest(wait time.Duration) {
	s.timer.Reset(wait)
	select {
	case <-s.timer.C:
	case <-s.end:
	}
}

// wakeBy makes the loop run at due or before.
func (s *sleeper) wakeBy(due reliable.Instant) {
	until := s.until.Load()
	if until != 0 && until <= int64(due) {
		return // it sleeps, but not too long
	}
	s.kick.Store(true)
	if s.until.Load() > int64(due) {
		s.wake()
	}
}

// endRest ends the loop's rest, for a goroutine that waits for packets that the loop reads.
func (s *sleeper) endRest() {
	if s.resting.Load() {
		s.wakeBy(0)
	}
}

// wake ends the loop's sleep.
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

package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// callWatch watches functions of the user that one goroutine beside the loop calls, one after the other: handlers with
// their own goroutine, the key function of Conflate, the state of a topic. It reports a call that takes long, and its
// return. The watchdog watches the calls of the loop itself.
//
// A call costs two atomic additions. A timer checks each watchEvery whether the call is still the one of its last
// check: the reported time is a lower bound. have lasted has lasted that long at least.
//
//	           begin             no call since the look before
//	no timer ─────────► looks ──────────────────────────────────► a last look, for a begin
//	    ▲               ▲  │ ▲                                    beside the look before
//	    │               └──┘ └───────── there was a call ─────────────┤
//	    └────────────────────────────── there was none ───────────────┘
type callWatch struct {
	clock clock
	slow  func(d time.Duration) // a call has lasted for d, and continues. Under mu, as fast
	fast  func(d time.Duration) // a reported call has returned, after d

	calls    atomic.Uint32 // odd: in a call. Written by the goroutine that calls
	watching atomic.Bool
	reported atomic.Bool // the call that runs

	mu    sync.Mutex
	timer *time.Timer     // under mu
	seen  uint32          // under mu: calls, at the last look
	time  watchedTime     // under mu: since that was seen first
	when  backoffReporter // under mu
	last  bool            // under mu: this look is the last one, if there is no call
	ended bool            // under mu
}

// begin is called before a call.
func (w *callWatch) begin() {
	w.calls.Add(1)
	if !w.watching.Load() {
		w.arm()
	}
}

// end is called when a call has returned.
func (w *callWatch) end() {
	w.calls.Add(1)
	if w.reported.Load() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.over()
	}
}

// stop ends the watch: there are no calls any more.
func (w *callWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (w *callWatch) arm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watching.Store(true)
	w.seen, w.time, w.last = w.calls.Load(), watchedTime{at: w.clock.now()}, false
	if w.timer == nil {
		w.timer = time.AfterFunc(watchEvery, w.look)
	} else {
		w.timer.Reset(watchEvery)
	}
}

// over reports that the reported call has returned. Under mu.
func (w *callWatch) over() {
	if w.reported.Swap(false) {
		w.when.over()
		w.fast(w.time.by(w.clock.now()))
		w.timer.Reset(watchEvery)
	}
}

// look is what the timer calls.
func (w *callWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	now, calls, next := w.clock.now(), w.calls.Load(), watchEvery
	switch {
	case calls != w.seen:
		w.over() // if it returned between the check and the report
		w.watching.Store(true)
		w.seen, w.time, w.last = calls, watchedTime{at: now}, false
		w.when.over()
	case calls%2 != 0:
		d := w.time.look(now)
		if w.when.due(d) {
			w.reported.Store(true)
			w.slow(d)
		}
		next = min(next, max(w.when.next-d, time.Millisecond))
	case w.last:
		return
	default:
		w.watching.Store(false)
		w.last = true
	}
	w.timer.Reset(next)
}

// watchState watches the function that makes a topic's state: late joiners wait for it, also for the state of other
// topics of the group, and report only that none arrived.
func (l *Loop) watchState(topic string) *callWatch {
	say := func(line *report.Line, attr string, d time.Duration) {
		_ = l.post(func() { line.Log(l.log, "topic", topic, attr, d) }) // it fails where the loop has ended
	}
	return &callWatch{
		clock: l.clock,
		slow:  func(d time.Duration) { say(&report.StateSlow, "so_far", d) },
		fast:  func(d time.Duration) { say(&report.StateReturned, "after", d) },
	}
}

// watchBeside looks after what is called beside the loop for subscription s. The log has line while that takes
// long, and calls it what, "of topic", and the subscription's topics as they are then.
func (s *Subscription) watchBeside(line *report.Line, what string) *callWatch {
	l := s.l
	emit := func(line *report.Line, kind events.Kind, attr string, d time.Duration) {
		_ = l.post(func() { // it fails where the loop has ended
			topics := s.names()
			line.Log(l.log, "handler", what+handlerText(shownTopics(topics)), attr, d)
			l.event(events.Event{Kind: kind, For: d, Topics: topics})
		})
	}
	return &callWatch{
		clock: l.clock,
		slow:  func(d time.Duration) { emit(line, events.HandlerSlow, "so_far", d) },
		fast:  func(d time.Duration) { emit(&report.HandlerReturned, events.HandlerReturned, "after", d) },
	}
}

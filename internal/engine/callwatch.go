package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// callWatch watches user functions that one goroutine other than the loop calls, one after another: handlers on their
// own goroutine, the key function of Conflate, the function that makes a topic's state. It reports a call that takes
// long, and its return. The watchdog watches the calls of the loop itself.
//
// A call costs two atomic additions. A timer checks each watchEvery whether the call of its last check still runs, so
// the reported time is a lower bound.
//
//	           begin              no call since the last check
//	no timer ─────────► checks ──────────────────────────────► one more check, for a call that
//	    ▲               ▲  │ ▲                                 began during the last one
//	    │               └──┘ └────── there was a call ────────────┤
//	    └─────────────────────────── there was none ──────────────┘
type callWatch struct {
	clock clock
	slow  func(d time.Duration) // called under mu: a call has lasted for d, and continues
	fast  func(d time.Duration) // called under mu: a reported call has returned, after d

	calls    atomic.Uint32 // odd during a call; written by the calling goroutine
	watching atomic.Bool
	reported atomic.Bool // the current call was reported

	mu    sync.Mutex
	timer *time.Timer     // under mu
	seen  uint32          // under mu: calls, at the last check
	time  watchedTime     // under mu: since seen was first observed
	when  backoffReporter // under mu
	last  bool            // under mu: this is the last check, unless a call has begun
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

// stop ends the watch: there will be no more calls.
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
	switch {
	case w.clock.virtual != nil: // calls take no time
	case w.timer == nil:
		w.timer = time.AfterFunc(watchEvery, w.look)
	default:
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

// look is called by the timer.
func (w *callWatch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	now, calls, next := w.clock.now(), w.calls.Load(), watchEvery
	switch {
	case calls != w.seen:
		w.over() // the call may have ended before reported was set
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

// watchState watches the function that makes a topic's state. Late joiners wait for it, also for the state of other
// topics of the group, and can report only that no state arrived.
func (l *Loop) watchState(topic string) *callWatch {
	say := func(line *report.Line, attr string, d time.Duration) {
		_ = l.post(func() { line.Log(l.log, "topic", topic, attr, d) }) // fails only if the loop has ended
	}
	return &callWatch{
		clock: l.clock,
		slow:  func(d time.Duration) { say(&report.StateSlow, "so_far", d) },
		fast:  func(d time.Duration) { say(&report.StateReturned, "after", d) },
	}
}

// watchBeside watches the functions that goroutines other than the loop call for subscription s. line reports a slow
// call; what, such as "Conflate's key ", precedes the subscription's topics in it.
func (s *Subscription) watchBeside(line *report.Line, what string) *callWatch {
	l := s.l
	emit := func(line *report.Line, kind events.Kind, attr string, d time.Duration) {
		_ = l.post(func() { // fails only if the loop has ended
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

package engine

import (
	"fmt"
	"runtime"

	"github.com/fanfaremq/fanfare/internal/report"
)

// A user function that ends its goroutine by runtime.Goexit ends the bus or a part of it. Without a report everything
// would just stop. A panic is different: it crashes the program.

// exitedError says which user function has ended a goroutine of the bus, and what ended with it.
type exitedError struct {
	what  string // the function
	ended string
}

func (e *exitedError) Error() string {
	return fmt.Sprintf("%s has ended its goroutine, and %s with it: have it return, which runtime.Goexit does not, nor FailNow, Fatal and Skip of a test", e.what, e.ended)
}

// exits reports whether its caller, a deferred function, runs because of runtime.Goexit, and not because a function has
// returned or panicked.
func exits() bool {
	pcs := make([]uintptr, 16) // enough: Goexit is only a few frames away
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs)])
	for {
		f, more := frames.Next()
		switch f.Function {
		case "runtime.Goexit":
			return true
		case "runtime.gopanic":
			return false
		}
		if !more {
			return false
		}
	}
}

// exited ends the loop, as when its transport fails, if the user function called last has ended the loop's goroutine.
// It is deferred.
func (l *Loop) exited() {
	if l.shutdown.dead || !exits() { // without l.mu: only the loop writes dead, and a panic may come with mu held
		return
	}
	what := l.watchdog.lastCalled()
	report.HandlerExited.Log(l.log, "handler", what)
	l.stop(&exitedError{what, "the bus"})
}

// lastCalled names the user function that the loop has called last in this turn.
func (w *watchdog) lastCalled() string {
	switch called := w.called.Load(); called {
	case 0:
		return "a function that the bus calls"
	case onEvent:
		return "OnEvent"
	default:
		w.mu.Lock()
		defer w.mu.Unlock()
		if names := w.names[called]; len(names) > 0 {
			return "a handler of topic " + names[0].name
		}
		return "a handler"
	}
}

func (s *Subscription) handlerExited() { s.exited("a handler") }

// exited ends the subscription if the user function that what describes ("a handler") has ended its goroutine. It is
// deferred.
func (s *Subscription) exited(what string) {
	if !exits() {
		return
	}
	_ = s.l.post(func() { // fails only if the loop has ended
		if s.Err() != nil {
			return
		}
		what += " of topic " + shownTopics(s.names())
		report.HandlerBesideExited.Log(s.l.log, "handler", what)
		s.suppressed.Store(true)
		s.fail(&exitedError{what, "its subscription"})
		s.l.evicted = append(s.l.evicted, s)
	})
}

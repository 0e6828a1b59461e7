package roce

import (
	"sync"
	"time"
)

// work is a queue of functions that one goroutine runs in order, like the kernel's work queue. The goroutine exists
// while there are functions.
type work struct {
	mu      sync.Mutex
	queue   []*task
	timers  map[*task]*time.Timer
	running bool
	stopped bool
	idle    sync.WaitGroup
	// ran is called after each function.
	ran func()
}

// task is a function that may be cancelled until it begins.
type task struct{ f func() }

// after calls f after d, in the goroutine.
func (w *work) after(d time.Duration, f func()) (cancel func()) {
	t := &task{f}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return func() {}
	}
	if d <= 0 {
		w.enqueue(t)
	} else {
		if w.timers == nil {
			w.timers = map[*task]*time.Timer{}
		}
		w.timers[t] = time.AfterFunc(d, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			delete(w.timers, t)
			if !w.stopped {
				w.enqueue(t)
			}
		})
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		t.f = nil
		if timer := w.timers[t]; timer != nil {
			timer.Stop()
			delete(w.timers, t)
		}
	}
}

// enqueue adds a task. The caller holds mu.
func (w *work) enqueue(t *task) {
	w.queue = append(w.queue, t)
	if !w.running {
		w.running = true
		w.idle.Add(1)
		go w.run()
	}
}

func (w *work) run() {
	defer w.idle.Done()
	for {
		w.mu.Lock()
		if len(w.queue) == 0 || w.stopped {
			w.running = false
			w.mu.Unlock()
			return
		}
		f := w.queue[0].f
		w.queue = w.queue[1:]
		w.mu.Unlock()
		if f != nil {
			f()
			if w.ran != nil {
				w.ran()
			}
		}
	}
}

// stop discards functions that have not begun, and waits for the goroutine.
func (w *work) stop() {
	w.mu.Lock()
	w.stopped = true
	for _, timer := range w.timers {
		timer.Stop()
	}
	w.timers, w.queue = nil, nil
	w.mu.Unlock()
	w.idle.Wait()
}

// Package virtual runs calls that wait in virtual time: each in a coroutine, one at a time, in a fixed order.
package virtual

import "iter"

// Tasks are functions that run in turns. The zero value has none.
type Tasks struct {
	list    []*task
	running *task
}

type task struct {
	resume  func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
	ready   func() bool // nil: it has not begun
	stopped bool
}

// stopped is the panic that ends a stopped task.
type stopped struct{}

// Go adds a task that runs f. It begins in Run.
func (t *Tasks) Go(f func()) {
	x := new(task)
	x.resume, x.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if x.stopped {
				recover()
			}
		}()
		x.yield = yield
		f()
	})
	t.list = append(t.list, x)
}

// Wait returns to Run until ready returns true. Only a task may call it.
func (t *Tasks) Wait(ready func() bool) {
	if ready() {
		return
	}
	x := t.running
	x.ready = ready
	if !x.yield(struct{}{}) {
		panic(stopped{})
	}
}

// Run continues the tasks that can continue, until each of them waits or has returned. It reports whether any did.
func (t *Tasks) Run() (ran bool) {
	if t.running != nil {
		return false
	}
	for again := true; again; ran = ran || again {
		again = false
		for i := 0; i < len(t.list); {
			x := t.list[i]
			if x.ready != nil && !x.ready() {
				i++
				continue
			}
			again, t.running = true, x
			_, waits := x.resume()
			if t.running = nil; waits {
				i++
			} else if i < len(t.list) && t.list[i] == x {
				t.list = append(t.list[:i], t.list[i+1:]...)
			}
		}
	}
	return ran
}

// Stop ends all tasks where they wait: their deferred functions run, and must not wait.
func (t *Tasks) Stop() {
	for _, x := range t.list {
		if x.ready != nil {
			x.stopped = true
			t.running = x
			x.stop()
		}
	}
	*t = Tasks{}
}

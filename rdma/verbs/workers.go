//go:build rdma && linux && cgo

package verbs

import "sync"

// workers run jobs that block a thread in C, in order with limited concurrency. Goroutines exist while there are jobs.
// All jobs must end before the owner of the workers.
type workers struct {
	max int // goroutines

	mu      sync.Mutex
	jobs    []func() // under mu
	running int      // goroutines; under mu
}

func (w *workers) begin(job func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.jobs = append(w.jobs, job)
	if w.running < w.max {
		w.running++
		go w.run()
	}
}

func (w *workers) run() {
	for {
		w.mu.Lock()
		if len(w.jobs) == 0 {
			w.jobs = nil
			w.running--
			w.mu.Unlock()
			return
		}
		job := w.jobs[0]
		w.jobs[0] = nil
		w.jobs = w.jobs[1:]
		w.mu.Unlock()
		job()
	}
}

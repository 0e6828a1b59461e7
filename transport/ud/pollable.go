package ud

import (
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// pollable is the provider's waiter, if it has a descriptor to wait on; else nil.
func (w *waiter) pollable() rdma.Pollable {
	p, _ := w.own.(rdma.Pollable)
	return p
}

// WaitDescriptor implements transport.Pollable.
func (t *Transport) WaitDescriptor() int {
	if p := t.wait.pollable(); p != nil {
		return p.Descriptor()
	}
	return -1
}

// WaitFor implements transport.Pollable.
func (t *Transport) WaitFor(descriptor int) error {
	return named("wait for another", t.wait.pollable().WaitFor(descriptor))
}

// BeginWait implements transport.Pollable.
func (t *Transport) BeginWait(timeout time.Duration) time.Duration {
	t.spin.idle = false
	if t.wait.pollable().Begin() {
		return 0
	}
	return t.before(timeout)
}

// EndWait implements transport.Pollable.
func (t *Transport) EndWait() { t.wait.pollable().End() }

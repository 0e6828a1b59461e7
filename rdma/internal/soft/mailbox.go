package soft

import (
	"context"
	"sync"

	"github.com/fanfaremq/fanfare/rdma"
)

// mailbox is a queue to wait for: the queue of an event channel, of a completion channel, and of a device's
// asynchronous events.
type mailbox[T any] struct {
	what string // for errors
	// ready holds a token whenever the queue may have items for which no goroutine was woken. A goroutine that leaves
	// items in the queue puts the token back.
	ready  chan struct{}
	closed chan struct{}

	mu    sync.Mutex
	items []T
	limit int // with more items the oldest are dropped; 0: no limit
	shut  bool
}

func newMailbox[T any](what string, limit int) *mailbox[T] {
	return &mailbox[T]{what: what, limit: limit, ready: make(chan struct{}, 1), closed: make(chan struct{})}
}

func (m *mailbox[T]) push(item T) {
	m.mu.Lock()
	if m.shut {
		m.mu.Unlock()
		return
	}
	if m.limit > 0 && len(m.items) == m.limit {
		m.items = m.items[:copy(m.items, m.items[1:])]
	}
	m.items = append(m.items, item)
	m.mu.Unlock()
	m.signal()
}

func (m *mailbox[T]) signal() {
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// pop returns the oldest item, or rdma.ErrNoEvent if there is none.
func (m *mailbox[T]) pop(op string) (item T, err error) {
	m.mu.Lock()
	if m.shut {
		m.mu.Unlock()
		return item, rdma.ClosedError(op, m.what)
	}
	if len(m.items) == 0 {
		m.mu.Unlock()
		return item, rdma.ErrNoEvent
	}
	var zero T
	item = m.items[0]
	n := copy(m.items, m.items[1:])
	m.items[n] = zero
	m.items = m.items[:n]
	m.mu.Unlock()
	if n > 0 {
		m.signal()
	}
	return item, nil
}

// remove deletes all items for which drop returns true.
func (m *mailbox[T]) remove(drop func(T) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.items[:0]
	for _, item := range m.items {
		if !drop(item) {
			kept = append(kept, item)
		}
	}
	clear(m.items[len(kept):])
	m.items = kept
}

// close ends all waits. It reports whether this was the first call.
func (m *mailbox[T]) close() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shut {
		return false
	}
	m.shut = true
	clear(m.items)
	m.items = nil
	close(m.closed)
	return true
}

func (m *mailbox[T]) isClosed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shut
}

// await calls try until it returns anything but rdma.ErrNoEvent, waiting for the mailbox in between.
func await[T, R any](ctx context.Context, m *mailbox[T], try func() (R, error)) (R, error) {
	for {
		r, err := try()
		if err != rdma.ErrNoEvent {
			return r, err
		}
		select {
		case <-m.ready:
		case <-m.closed:
		case <-done(ctx):
			return r, ctx.Err()
		}
	}
}

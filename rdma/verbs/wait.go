//go:build rdma && linux && cgo

package verbs

import (
	"context"
	"sync/atomic"

	"github.com/fanfaremq/fanfare/rdma"
)

// source is a source of events to wait for: a file descriptor or a queue.
type source struct {
	// ready holds a token whenever there may be an event for which no goroutine was woken. A goroutine that takes an event
	// puts the token back, because there may be more.
	ready  chan struct{}
	closed chan struct{}
	// edge: the descriptor has become readable since it was last found empty. It saves a system call if not.
	edge atomic.Bool
	// fault is the error if waiting has failed permanently, other than by Close.
	fault atomic.Pointer[rdma.Error]
}

func newSource() source {
	return source{ready: make(chan struct{}, 1), closed: make(chan struct{})}
}

// readable is called by a watch.
func (s *source) readable() {
	s.edge.Store(true)
	s.signal()
}

func (s *source) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// fail ends all waits with an error, after the queued events were taken.
func (s *source) fail(err *rdma.Error) {
	s.fault.Store(err)
	s.signal()
}

// empty returns the error of a source without events.
func (s *source) empty() error {
	if err := s.fault.Load(); err != nil {
		s.signal() // others wait, too
		return err
	}
	return rdma.ErrNoEvent
}

func (s *source) isClosed() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// await calls try until it returns anything but rdma.ErrNoEvent, waiting for the source in between.
func await[R any](ctx context.Context, s *source, try func() (R, error)) (R, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	for {
		r, err := try()
		if err != rdma.ErrNoEvent {
			return r, err
		}
		select {
		case <-s.ready:
		case <-s.closed:
		case <-ctx.Done():
			return r, ctx.Err()
		}
	}
}

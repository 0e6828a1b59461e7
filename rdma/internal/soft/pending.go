package soft

import (
	"context"
	"sync"
)

// pending is an operation in progress; rdma.Pending.
type pending struct {
	done chan struct{}
	once sync.Once
	err  error
}

func newPending() *pending { return &pending{done: make(chan struct{})} }

func (p *pending) finish(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.done)
	})
}

func (p *pending) Done() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *pending) Wait(ctx context.Context) error {
	if p.Done() {
		return p.err
	}
	select {
	case <-p.done:
		return p.err
	case <-done(ctx):
		return ctx.Err()
	}
}

// done returns ctx.Done(), or for a nil ctx a channel that is never closed.
func done(ctx context.Context) <-chan struct{} {
	if ctx == nil {
		return nil
	}
	return ctx.Done()
}

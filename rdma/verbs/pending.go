//go:build rdma && linux && cgo

package verbs

import "context"

// pending is an operation that ends when its events are acknowledged; rdma.Pending.
type pending chan struct{}

func (p pending) Done() bool {
	select {
	case <-p:
		return true
	default:
		return false
	}
}

func (p pending) Wait(ctx context.Context) error {
	if ctx == nil {
		ctx = context.Background()
	}
	if p.Done() {
		return nil
	}
	select {
	case <-p:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

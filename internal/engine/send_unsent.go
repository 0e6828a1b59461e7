package engine

import (
	"context"
	"errors"
	"net"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// unsent is how many messages of a publication that was killed were taken and never sent. The first caller counts them,
// while their memory exists: the bus, or a publisher that closes with it.
func (p *Publication) unsent() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := &p.life; !x.counted {
		x.unsent, x.counted = p.countUnsent(), true
	}
	return p.life.unsent
}

// countUnsent counts them. Under mu.
func (p *Publication) countUnsent() uint64 {
	p.open.take()
	n := p.open.w.UnsentMessages()
	if p.memory.own != nil { // else the transport has failed
		n += p.s.UnsentMessages()
	}
	return n
}

// FlushLast is Flush for a publisher that closes: it is no error that the bus has closed meanwhile, but where
// messages were never sent for that.
func (p *Publication) FlushLast(ctx context.Context) error {
	err := p.Flush(ctx)
	if !errors.Is(err, net.ErrClosed) {
		return err
	}
	if n := p.unsent(); n > 0 {
		return &events.UnsentError{Messages: n, Err: err}
	}
	return nil
}

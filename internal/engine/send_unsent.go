package engine

import (
	"context"
	"errors"
	"net"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// unsent returns how many messages of a killed publication were accepted and never sent. The first caller counts them
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
	if p.memory.own != nil { // otherwise the transport has failed
		n += p.m.UnsentMessages()
	}
	return n
}

// FlushLast is Flush for a publisher that closes. If the bus has closed meanwhile, that is an error only if messages
// were never sent because of it.
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

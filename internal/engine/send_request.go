package engine

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
)

var (
	// ErrNoResponders says that the topic of a request has no subscriber.
	ErrNoResponders = errors.New("the topic has no subscriber")
	// ErrNoneLeft says that all subscribers of a request have replied, or have gone.
	ErrNoneLeft = errors.New("all subscribers have replied, or have gone")
)

// requestGrace is how long a request waits for a first subscriber of its topic in a group that is new to the bus.
// Subscribers send a status within a round trip of the first heartbeat that they receive.
const requestGrace = 500 * time.Millisecond

// Inquiry is a request that waits for replies.
type Inquiry struct {
	p     *Publication
	r     topics.Request
	ready chan struct{} // capacity 1
}

// Request publishes msg on topic t as a request. Close the inquiry when done.
func (p *Publication) Request(ctx context.Context, t *topics.Topic, msg []byte) (*Inquiry, error) {
	if p.l.watchdog.within() {
		return nil, ErrInHandler
	}
	if err := liveContext(ctx); err != nil {
		return nil, err
	}
	if err := p.anySubscriber(ctx, t); err != nil {
		return nil, err
	}
	if err := p.live(ctx); err != nil {
		return nil, err
	}
	q := &Inquiry{p: p, ready: make(chan struct{}, 1)}
	q.r.Ready = q.wake
	if err := p.request(ctx, t, msg, q); err != nil {
		return nil, err
	}
	return q, nil
}

// anySubscriber waits for a first subscriber of t while there may be one that is not known yet.
func (p *Publication) anySubscriber(ctx context.Context, t *topics.Topic) error {
	p.mu.Lock()
	now := p.l.now()
	known, asked := p.m.Ask(now, t.ID)
	ran := p.s.Ran(now)
	p.mu.Unlock()
	left := requestGrace
	switch young := requestGrace - ran.Sub(p.since); {
	case known > 0:
		return nil
	case !asked && young <= 0:
		return ErrNoResponders
	case !asked:
		left = young
	}
	for stood := now.Sub(ran); ; left = requestGrace {
		grace, cancel := p.l.timeout(ctx, left)
		err := p.WaitReceivers(grace, t.ID, 1)
		over := err != nil && grace.Err() != nil && ctx.Err() == nil
		cancel()
		if !over {
			return err
		}
		before := stood
		if stood = p.stood(); stood == before {
			return ErrNoResponders
		}
	}
}

// stood returns for how long the publication has not run so far: statuses of that time may be unread.
func (p *Publication) stood() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.l.now()
	return now.Sub(p.s.Ran(now))
}

// request appends msg and decides whether to send it, as publish does.
func (p *Publication) request(ctx context.Context, t *topics.Topic, msg []byte, q *Inquiry) error {
	p.enter()
	defer p.leave()
	if len(msg) > p.size {
		if err := p.appendLarge(ctx, t, msg, true, &q.r); err != nil {
			return err
		}
	} else {
		for p.life.shut() || p.open.large || !p.m.Write(p.open.w, t, msg, &q.r) {
			if err := p.makeRoom(ctx, true, false); err != nil {
				return err
			}
		}
	}
	p.open.count++
	p.look()
	return nil
}

// wake makes Next check again.
func (q *Inquiry) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Next waits for the next reply until ctx ends. It returns ErrNoneLeft when no other can come.
func (q *Inquiry) Next(ctx context.Context) (topics.Reply, error) {
	if ctx == nil {
		return topics.Reply{}, ErrNilContext
	}
	for {
		x, ok, err := q.take()
		if ok || err != nil {
			return x, err
		}
		if q.p.l.await(q.ready, ctx.Done(), nil) == 1 {
			return topics.Reply{}, contextError(ctx)
		}
	}
}

// take returns a reply if there is one, or why there will be none.
func (q *Inquiry) take() (x topics.Reply, ok bool, err error) {
	p := q.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if x, ok = q.r.Take(); ok {
		return x, true, nil
	}
	st := q.r.State()
	switch {
	case p.life.closed != nil:
		return x, false, p.life.closed
	case p.life.ending:
		return x, false, net.ErrClosed
	case st.Over():
		return x, false, ErrNoneLeft
	}
	return x, false, nil
}

// State says which subscribers have confirmed the request.
func (q *Inquiry) State() topics.RequestState {
	q.p.mu.Lock()
	defer q.p.mu.Unlock()
	return q.r.State()
}

// Close ends the wait for replies.
func (q *Inquiry) Close() {
	p := q.p
	p.mu.Lock()
	defer p.mu.Unlock()
	q.r.Close()
}

package worker

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Requester is a Contender that asks and answers, under LoadRequest.
type Requester interface {
	Contender
	// Ask waits for the responders, calls Ready, and then Requests.
	Ask(ctx context.Context, r *Run) error
	// Respond answers each request with what it says, calls Executed of a Responder with it,
	// and Wait when it would hear one.
	Respond(ctx context.Context, r *Run) error
}

// perRequest is how long a request may take.
const perRequest = 30 * time.Second

// Requests sends the requests of the load by ask, from as many goroutines as the specification
// says. ask returns how many replies came.
func (r *Run) Requests(ctx context.Context, ask func(ctx context.Context, msg []byte) (replies int, err error)) error {
	var mu sync.Mutex // for what follows, and the report
	times, replies, answered := NewHistogram(), 0, uint64(0)
	var next atomic.Int64
	var all sync.WaitGroup
	r.Begin()
	for range r.Spec.Goroutines {
		all.Go(func() {
			msg := make([]byte, r.Spec.Size)
			for id := next.Add(1); id <= int64(r.Spec.Requests) && ctx.Err() == nil; id = next.Add(1) {
				binary.LittleEndian.PutUint64(msg, uint64(id))
				begin := Now()
				one, cancel := context.WithTimeout(ctx, perRequest)
				n, err := ask(one, msg)
				cancel()
				took := Now() - begin
				mu.Lock()
				record(times, took)
				if replies += n; err == nil {
					answered++
				} else {
					r.report.fault(err.Error())
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	r.End(answered)
	r.Figures(map[string]float64{"replies": float64(replies)})
	r.report.Latency = times.Export()
	return context.Cause(ctx)
}

// Responder counts what a responder executes: each request once.
type Responder struct {
	r    *Run
	mu   sync.Mutex // for what follows, and r's report
	seen map[uint64]bool
}

// NewResponder returns one that has executed nothing.
func NewResponder(r *Run) *Responder { return &Responder{r: r, seen: make(map[uint64]bool)} }

// Executed takes note of a request.
func (p *Responder) Executed(msg []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := binary.LittleEndian.Uint64(msg)
	if p.r.report.Messages++; p.seen[id] {
		p.r.report.fault(fmt.Sprintf("request %d", id))
	}
	p.seen[id] = true
}

// Wait calls Ready, and waits for the publisher's end, or for what has failed.
func (p *Responder) Wait(ctx context.Context, failed <-chan error) error {
	p.r.start()
	p.r.Ready("")
	select {
	case err := <-failed:
		return err
	case <-p.r.Stopped():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.r.End(p.r.report.Messages)
	return nil
}

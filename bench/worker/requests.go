package worker

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Requester is a Contender that supports LoadRequest.
type Requester interface {
	Contender
	// Ask waits for the responders, calls Ready, and then Requests.
	Ask(ctx context.Context, r *Run) error
	// Respond replies to each request with its content, calls Executed of a Responder for it, and
	// calls Wait when it can receive requests.
	Respond(ctx context.Context, r *Run) error
}

// perRequest is the time limit of a request.
const perRequest = 30 * time.Second

// Requests sends the requests of the load with request, from as many goroutines as the specification
// sets. request returns the number of replies received.
func (r *Run) Requests(ctx context.Context, request func(context.Context, []byte) (replies int, err error)) error {
	var mu sync.Mutex // guards the following and the report
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
				n, err := request(one, msg)
				cancel()
				elapsed := Now() - begin
				mu.Lock()
				record(times, elapsed)
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

// Responder counts the executed requests: each only once.
type Responder struct {
	r    *Run
	mu   sync.Mutex // guards the following and r's report
	seen map[uint64]bool
}

// NewResponder returns a Responder without executed requests.
func NewResponder(r *Run) *Responder { return &Responder{r: r, seen: make(map[uint64]bool)} }

// Executed records a request.
func (p *Responder) Executed(msg []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := binary.LittleEndian.Uint64(msg)
	if p.r.report.Messages++; p.seen[id] {
		p.r.report.fault(fmt.Sprintf("request %d", id))
	}
	p.seen[id] = true
}

// Wait calls Ready, and waits for the end of the publisher, or an error.
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

package worker

import (
	"context"
	"runtime"
	"time"
)

// Pump measures a publisher: it publishes the load with publish, from one goroutine, and at the end
// calls flush, if not nil. The message is valid during the call; the last one is marked.
//
// Under full load calling through a function value costs some nanoseconds: contenders for which
// that matters have their own loop (Begin, Deadline with Chunk, Published).
func (r *Run) Pump(ctx context.Context, publish func(topic int, msg []byte) error, flush func() error) error {
	r.Begin()
	src := r.Source(0)
	load := r.pumpTimed
	if r.Spec.Load == LoadFull {
		load = r.pumpFull
	}
	err := load(ctx, src, publish)
	if err == nil && flush != nil {
		err = flush()
	}
	r.Published(src)
	return err
}

func (r *Run) pumpFull(ctx context.Context, src *Source, publish func(int, []byte) error) error {
	for end, chunk := r.Deadline(), r.Chunk(); Now() < end && ctx.Err() == nil; {
		for range chunk {
			if err := publish(src.Take()); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return publish(src.Last())
}

// pumpTimed publishes each message when it is due, independent of earlier ones. Latency counts from that
// time: a publisher that is blocked or sleeps too long does not hide it (coordinated omission).
func (r *Run) pumpTimed(ctx context.Context, src *Source, publish func(int, []byte) error) error {
	total, gap := uint64(max(1, r.Spec.Seconds*r.Spec.Rate)), float64(time.Second)/r.Spec.Rate
	if r.Spec.PublisherWait != WaitPark {
		// The scheduler sometimes moves a spinning goroutine to another thread, and thereby to the
		// processor of the subscriber, so its thread is locked. This applies to all contenders.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	for i := range total {
		due := r.report.Start + int64(float64(i)*gap)
		if err := r.await(ctx, due); err != nil {
			return err
		}
		topic, msg := src.Take()
		if i == total-1 {
			markLast(msg)
		}
		stamp(msg, due)
		if err := publish(topic, msg); err != nil {
			return err
		}
	}
	return nil
}

// await waits for a time, as Spec.PublisherWait says.
func (r *Run) await(ctx context.Context, due int64) error {
	for Now() < due {
		if r.Spec.PublisherWait == WaitPark {
			// the shortest sleep takes some 50 µs
			nap(min(time.Duration(due-Now()), 10*time.Millisecond))
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

// settle is the time for the sides to establish the connection before they are idle: the publisher
// begins while the subscriber waits.
const settle = 500 * time.Millisecond

// Idle measures an idle side for the duration of the load.
func (r *Run) Idle(ctx context.Context) error {
	if err := sleep(ctx, settle); err != nil {
		return err
	}
	r.Begin()
	err := sleep(ctx, r.Spec.duration())
	r.End(0)
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Chunk is the number of messages to publish between two readings of the clock.
func (r *Run) Chunk() int { return min(max(64<<10/r.Spec.Size, 1), 256) }

// Deadline is the end of a full load, on the clock of Now.
func (r *Run) Deadline() int64 { return r.report.Start + int64(r.Spec.duration()) }

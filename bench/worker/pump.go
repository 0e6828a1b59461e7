package worker

import (
	"context"
	"runtime"
	"time"
)

// Pump publishes the load with publish, and flush at the end of what belongs
// together, if there is one. The message is valid during the call. It returns
// how many were published; the last of them is marked.
//
// Under a full load publish is called through a function value, which costs a
// nanosecond or two: a contender that would feel it has a loop of its own (Over
// with Chunk).
func (r *Run) Pump(ctx context.Context, publish func(msg []byte) error, flush func() error) (uint64, error) {
	src := NewSource(r.Spec.Size)
	var err error
	if r.Spec.Load == LoadFull {
		if err = r.pumpFull(ctx, src, publish); err == nil {
			err = publish(src.Last())
		}
	} else {
		err = r.pumpTimed(ctx, src, func(_ int, msg []byte) error { return publish(msg) }, flush)
	}
	if err == nil && flush != nil {
		err = flush()
	}
	return src.Sent(), err
}

// PumpTopics is Pump for a load on many topics, from one goroutine. It reports what it
// has published.
func (r *Run) PumpTopics(ctx context.Context, publish func(topic int, msg []byte) error, flush func() error) (uint64, error) {
	src := r.TopicSource(0)
	defer r.Published(src)
	var err error
	if r.Spec.Load == LoadFull {
		for end, chunk := r.Deadline(), r.Chunk(); err == nil && Now() < end && ctx.Err() == nil; {
			for range chunk {
				if err = publish(src.Next()); err != nil {
					break
				}
			}
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = publish(src.Last())
		}
	} else {
		err = r.pumpTimed(ctx, src, publish, flush)
	}
	if err == nil && flush != nil {
		err = flush()
	}
	return src.Sent(), err
}

// feeder is a source of messages with or without topics.
type feeder interface {
	take() (topic int, msg []byte)
	markLast(msg []byte)
}

// pumpTimed publishes a load that does not go as fast as it can.
func (r *Run) pumpTimed(ctx context.Context, src feeder, publish func(int, []byte) error, flush func() error) error {
	switch r.Spec.Load {
	case LoadPaced:
		return r.pumpPaced(ctx, src, publish)
	case LoadBurst:
		return r.pumpBursts(ctx, src, publish, flush)
	}
	return nil
}

// settle is how long sides have to get to know each other before they are idle:
// the publisher begins while the subscriber waits.
const settle = 500 * time.Millisecond

// Idle measures a side that has nothing to do, for as long as the load lasts.
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
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Source returns the source of messages of a full load.
func (r *Run) Source() *Source { return newSource(r.Spec.Size, max(r.Spec.Batch, 1)) }

// Chunk is how many messages to publish between two looks at the clock.
func (r *Run) Chunk() int { return min(max(64<<10/r.Spec.Size, 1), 256) }

// Deadline is when a full load ends, on the clock of Now.
func (r *Run) Deadline() int64 { return r.report.Start + int64(r.Spec.duration()) }

func (r *Run) pumpFull(ctx context.Context, src *Source, publish func([]byte) error) error {
	for end, chunk := r.Deadline(), r.Chunk(); Now() < end && ctx.Err() == nil; {
		for range chunk {
			if err := publish(src.Next()); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// pumpPaced publishes message i when it is due, whatever became of those
// before. Latency counts from then: a publisher that is held up, or slept too
// long, does not hide it (coordinated omission).
func (r *Run) pumpPaced(ctx context.Context, src feeder, publish func(int, []byte) error) error {
	if r.Spec.PublisherWait != WaitPark {
		// A goroutine that spins is moved to another thread now and then, and
		// thereby to the processor that the subscriber runs on: who publishes so
		// locks his thread. It is the same for all contenders.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	total := uint64(max(1, r.Spec.Seconds*r.Spec.Rate))
	gap := float64(time.Second) / r.Spec.Rate
	for i := range total {
		due := r.report.Start + int64(float64(i)*gap)
		if err := r.await(ctx, due); err != nil {
			return err
		}
		topic, msg := src.take()
		if i == total-1 {
			src.markLast(msg)
		}
		Stamp(msg, due)
		if err := publish(topic, msg); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) pumpBursts(ctx context.Context, src feeder, publish func(int, []byte) error, flush func() error) error {
	bursts := max(1, int64(r.Spec.duration()/r.Spec.Every))
	for i := range bursts {
		due := r.report.Start + i*int64(r.Spec.Every)
		if err := r.await(ctx, due); err != nil {
			return err
		}
		for j := range r.Spec.Burst {
			topic, msg := src.take()
			if i == bursts-1 && j == r.Spec.Burst-1 {
				src.markLast(msg)
			}
			Stamp(msg, due)
			if err := publish(topic, msg); err != nil {
				return err
			}
		}
		if flush != nil {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// await waits for an instant, as Spec.PublisherWait says.
func (r *Run) await(ctx context.Context, due int64) error {
	for Now() < due {
		if r.Spec.PublisherWait == WaitPark {
			// The shortest sleep there is takes 50 µs or so.
			nap(min(time.Duration(due-Now()), 10*time.Millisecond))
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}

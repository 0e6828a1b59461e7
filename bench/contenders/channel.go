package contenders

import (
	"context"
	"fmt"
	"sync"
	"unsafe"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// channel is Go's own way within a process: a buffered channel of values for
// each subscriber.
type channel struct {
	// pump gives the publisher, when subscribers are ready, what publishes to
	// them.
	pump chan func(ctx context.Context, r *worker.Run) error
}

func newChannel() *channel {
	return &channel{pump: make(chan func(context.Context, *worker.Run) error, 1)}
}

// channelBuffer is how many values a channel holds.
const channelBuffer = 1024

// ChannelSizes are the sizes of messages that the channel baseline can carry: a
// channel's type is known when the program is built.
func ChannelSizes() []int { return []int{32, 64, 128, 256, 512, 1024, 4096} }

// Publish implements worker.Contender.
func (c *channel) Publish(ctx context.Context, r *worker.Run) error {
	select {
	case pump := <-c.pump:
		r.Ready("")
		return pump(ctx, r)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Subscribe implements worker.Contender.
func (c *channel) Subscribe(ctx context.Context, r *worker.Run) error {
	switch r.Spec.Size {
	case 32:
		return subscribeChannels[[32]byte](ctx, r, c)
	case 64:
		return subscribeChannels[[64]byte](ctx, r, c)
	case 128:
		return subscribeChannels[[128]byte](ctx, r, c)
	case 256:
		return subscribeChannels[[256]byte](ctx, r, c)
	case 512:
		return subscribeChannels[[512]byte](ctx, r, c)
	case 1024:
		return subscribeChannels[[1024]byte](ctx, r, c)
	case 4096:
		return subscribeChannels[[4096]byte](ctx, r, c)
	}
	return fmt.Errorf("channel: messages of %d bytes: the sizes it has are %v", r.Spec.Size, ChannelSizes())
}

// subscribeChannels reads channels of values of type T, an array of bytes.
func subscribeChannels[T any](ctx context.Context, r *worker.Run, c *channel) error {
	var chans []chan T
	var all sync.WaitGroup
	for range r.Spec.Here() {
		ch := make(chan T, channelBuffer)
		chans = append(chans, ch)
		v := r.Receiver(false)
		all.Add(1)
		go func() {
			defer all.Done()
			for val := range ch {
				v.Message(arrayBytes(&val))
			}
		}()
	}
	c.pump <- func(ctx context.Context, r *worker.Run) error { return publishChannels(ctx, r, chans) }
	r.Ready("")
	select {
	case <-r.Stopped():
	case <-ctx.Done():
	}
	// The publisher has closed them, or, if it was never asked to, nobody has.
	select {
	case <-c.pump:
		closeAll(chans)
	default:
	}
	all.Wait()
	return context.Cause(ctx)
}

// publishChannels sends to all channels and closes them in the end.
func publishChannels[T any](ctx context.Context, r *worker.Run, chans []chan T) error {
	defer closeAll(chans)
	var val T
	send := func(_ int, msg []byte) error {
		copy(arrayBytes(&val), msg)
		for _, ch := range chans {
			ch <- val
		}
		return nil
	}
	r.Begin()
	sent, err := r.Pump(ctx, send, nil)
	r.End(sent)
	return err
}

func closeAll[T any](chans []chan T) {
	for _, ch := range chans {
		close(ch)
	}
}

// arrayBytes is the memory of an array of bytes.
func arrayBytes[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

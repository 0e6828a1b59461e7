package contenders

import (
	"context"
	"sync"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// ChannelSize is the message size of the channel baseline, in bytes: the element type of a channel
// is fixed at compile time.
const ChannelSize = 64

// channelBuffer is the capacity of a channel.
const channelBuffer = 1024

// channel is the Go idiom within a process: a buffered channel of values for each subscriber.
// Publish is called after Subscribe has made the channels.
type channel struct {
	chans []chan [ChannelSize]byte
}

// Publish implements worker.Contender. It closes the channels at the end.
func (c *channel) Publish(ctx context.Context, r *worker.Run) error {
	defer func() {
		for _, ch := range c.chans {
			close(ch)
		}
	}()
	r.Ready("")
	var val [ChannelSize]byte
	return r.Pump(ctx, func(_ int, msg []byte) error {
		copy(val[:], msg)
		for _, ch := range c.chans {
			ch <- val
		}
		return nil
	}, nil)
}

// Subscribe implements worker.Contender.
func (c *channel) Subscribe(ctx context.Context, r *worker.Run) error {
	var all sync.WaitGroup
	for range r.Spec.Here() {
		ch := make(chan [ChannelSize]byte, channelBuffer)
		c.chans = append(c.chans, ch)
		v := r.Receiver(false)
		all.Go(func() {
			for val := range ch {
				v.Message(val[:])
			}
		})
	}
	r.Ready("")
	select {
	case <-r.Stopped():
		all.Wait()
		return nil
	case <-ctx.Done(): // the remaining receivers end with the process
		return context.Cause(ctx)
	}
}

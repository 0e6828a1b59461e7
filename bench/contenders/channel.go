package contenders

import (
	"context"
	"sync"

	"github.com/fanfaremq/fanfare/bench/worker"
)

// ChannelSize is the size of messages that the channel baseline carries: a channel's type is
// known when the program is built.
const ChannelSize = 64

// channelBuffer is how many values a channel holds.
const channelBuffer = 1024

// channel is Go's own way within a process: a buffered channel of values for
// each subscriber. Publish is called when Subscribe has made them.
type channel struct {
	chans []chan [ChannelSize]byte
}

// Publish implements worker.Contender. It closes the channels in the end.
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
	case <-ctx.Done(): // what still receives ends with the process
		return context.Cause(ctx)
	}
}

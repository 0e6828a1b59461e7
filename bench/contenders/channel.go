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
// each subscriber, which comes to the publisher in made.
type channel struct {
	made chan []chan [ChannelSize]byte
}

// Publish implements worker.Contender. It closes the channels in the end.
func (c channel) Publish(ctx context.Context, r *worker.Run) error {
	var chans []chan [ChannelSize]byte
	select {
	case chans = <-c.made:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer closeAll(chans)
	r.Ready("")
	r.Begin()
	var val [ChannelSize]byte
	sent, err := r.Pump(ctx, func(_ int, msg []byte) error {
		copy(val[:], msg)
		for _, ch := range chans {
			ch <- val
		}
		return nil
	}, nil)
	r.End(sent)
	return err
}

// Subscribe implements worker.Contender.
func (c channel) Subscribe(ctx context.Context, r *worker.Run) error {
	var chans []chan [ChannelSize]byte
	var all sync.WaitGroup
	for range r.Spec.Here() {
		ch := make(chan [ChannelSize]byte, channelBuffer)
		chans = append(chans, ch)
		v := r.Receiver(false)
		all.Go(func() {
			for val := range ch {
				v.Message(val[:])
			}
		})
	}
	c.made <- chans
	r.Ready("")
	select {
	case <-r.Stopped():
	case <-ctx.Done():
	}
	select {
	case <-c.made: // there was no publisher
		closeAll(chans)
	default:
	}
	all.Wait()
	return context.Cause(ctx)
}

func closeAll(chans []chan [ChannelSize]byte) {
	for _, ch := range chans {
		close(ch)
	}
}

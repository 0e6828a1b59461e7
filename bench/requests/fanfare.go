package requests

import (
	"context"
	"fmt"

	"github.com/fanfaremq/fanfare/pubsub"
)

// Fanfare is Bus.Request and Message.Respond, answered by handlers.
type Fanfare struct{}

func (Fanfare) open(ctx context.Context, s *Spec) (*pubsub.Bus, error) {
	var c pubsub.Config
	if s.Loss > 0 {
		c.Faults = fmt.Sprintf("loss=%g,seed=%d", s.Loss, s.Seed)
	}
	return c.Open(ctx, s.URL)
}

// Respond implements Contender.
func (f Fanfare) Respond(ctx context.Context, s *Spec, ready func(), executed func([]byte)) error {
	bus, err := f.open(ctx, s)
	if err != nil {
		return err
	}
	defer bus.Close()
	failed := make(chan error, 1)
	_, err = bus.Handle(topic, func(m pubsub.Message, err error) {
		if err == nil {
			executed(m.Data)
			err = m.Respond(m.Data)
		}
		if err != nil {
			select {
			case failed <- err:
			default:
			}
		}
	})
	if err != nil {
		return err
	}
	ready()
	select {
	case err = <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// Ask implements Contender.
func (f Fanfare) Ask(ctx context.Context, s *Spec) (func(context.Context, []byte) (int, error), func(), error) {
	bus, err := f.open(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	pub, err := bus.Publisher(topic)
	if err == nil {
		err = pub.WaitSubscribers(ctx, s.Responders)
	}
	if err != nil {
		bus.Close()
		return nil, nil, err
	}
	want := 1
	if s.All {
		want = s.Responders
	}
	return func(ctx context.Context, msg []byte) (replies int, err error) {
		for _, err := range bus.RequestMany(ctx, topic, msg, want) {
			if err != nil {
				return replies, err
			}
			replies++
		}
		return replies, nil
	}, func() { bus.Close() }, nil
}

package contenders

import (
	"context"

	"github.com/fanfaremq/fanfare/bench/worker"
	"github.com/fanfaremq/fanfare/pubsub"
)

// Respond implements worker.Requester with a handler and Message.Respond.
func (fanfare) Respond(ctx context.Context, r *worker.Run) error {
	bus, err := openBus(ctx, r, r.Spec.Wait, r.Spec.Faults())
	if err != nil {
		return err
	}
	defer bus.Close()
	failed, in := make(chan error, 1), worker.NewResponder(r)
	_, err = bus.Handle(r.Spec.Topic, func(m pubsub.Message, err error) {
		if err == nil {
			in.Executed(m.Data)
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
	return in.Wait(ctx, failed)
}

// Ask implements worker.Requester with Bus.RequestMany.
func (fanfare) Ask(ctx context.Context, r *worker.Run) error {
	bus, err := openBus(ctx, r, "", r.Spec.Faults())
	if err != nil {
		return err
	}
	defer bus.Close()
	pub, err := bus.Publisher(r.Spec.Topic)
	if err == nil {
		err = pub.WaitSubscribers(ctx, r.Spec.Subs)
	}
	if err != nil {
		return err
	}
	want := 1
	if r.Spec.AllReplies {
		want = r.Spec.Subs
	}
	r.Ready("")
	return r.Requests(ctx, func(ctx context.Context, msg []byte) (replies int, err error) {
		for _, err := range bus.RequestMany(ctx, r.Spec.Topic, msg, want) {
			if err != nil {
				return replies, err
			}
			replies++
		}
		return replies, nil
	})
}

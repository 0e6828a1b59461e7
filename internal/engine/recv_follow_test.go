package engine

import (
	"context"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// A subscription that begins soon after a publisher's end receives its messages when the publisher starts again.
func TestSubscribeAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, to := newLoop(t, Config{MaxMessage: 1000})
	// A handler keeps the group joined, without a cursor.
	if _, err := to.Subscribe([]TopicName{{Name: "x", Group: 0}}, policyBlock, From{}, false, handlerFuncs{
		message: func(*reliable.Origin, *topics.Track, uint64, []byte) {},
		run: func(_ *reliable.Origin, _ *topics.Track, number uint64, body []byte, _, _ int) ([]byte, uint64) {
			return body, number
		},
		other: func(*Delivery) {},
	}); err != nil {
		t.Fatal(err)
	}
	publish := func(epoch events.ID, message string) {
		t.Helper()
		_, from := newLoop(t, Config{Instance: events.Instance{Publisher: 0x77, Epoch: epoch}})
		p, topic := publication(t, from, "x")
		if err := p.WaitReceivers(ctx, topic.ID, 1); err != nil {
			t.Fatal(err)
		}
		if err := p.Publish(ctx, topic, []byte(message), true); err != nil {
			t.Fatal(err)
		}
		if err := from.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	publish(1, "before")
	s := subscribeTo(t, to, TopicName{Name: "x", Group: 0}, policyBlock, nil)
	known := 0
	if err := to.do(func() { known = len(to.groups[0].r.Streams()) }); err != nil || known != 1 {
		t.Fatalf("%d streams, error %v, want the ended stream", known, err)
	}
	publish(2, "after")
	var d Delivery
	if err := s.Next(ctx, &d); err != nil || string(d.Data) != "after" || d.From.Epoch != 2 {
		t.Errorf("the first message is %q of epoch %d (%v), want after of epoch 2", d.Data, d.From.Epoch, err)
	}
}

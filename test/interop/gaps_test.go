package interop

import (
	"errors"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// gap processes a permanent loss: the lost messages must be the next ones.
func (c *checker) gap(topic string, first, count uint64) {
	c.t.Helper()
	if first != c.got[topic] || count == 0 || first+count > uint64(len(c.want[topic])) {
		c.t.Fatalf("%s: a gap of %d messages from %d, but the next one is %d of %d", topic, count, first, c.got[topic], len(c.want[topic]))
	}
	c.got[topic] += count
	c.left -= int(count)
	c.lost += int(count)
}

// A publisher without flow control and with a small window loses some messages permanently: each
// message is either delivered, or in an exact gap.
func TestGapsGoToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	bus := net.open(t, ctx, pubsub.Config{FlowControl: pubsub.FlowNone, WindowBytes: 64 << 10})
	sub := subscribeFaulty(t, ctx, net, "loss=0.3", streams())
	check, _ := net.toPython(t, ctx, bus, sub, 1000, func(c *checker, l line) {
		if l.Type == "gap" {
			c.gap(l.Topic, l.First, l.Count)
			return
		}
		c.line(l)
	})
	if check.lost == 0 {
		t.Error("no message was lost permanently")
	}
	t.Logf("%d of 1000 messages were lost permanently", check.lost)
}

func TestGapsPythonToGo(t *testing.T) {
	testenv.Slow(t)
	ctx, net := testContext(t), newNetwork(t)
	bus, _ := net.listenWith(t, ctx, pubsub.Config{Faults: "loss=0.3"})
	sub := subscription(t, bus)
	msgs := net.messages(1000)
	pub := publishFaulty(t, ctx, net, "loss=0.05", msgs, "--flow", "none", "--window", "16")
	check := newChecker(t, msgs)
	for check.left > 0 {
		m, err := sub.Next(ctx)
		var gap *pubsub.GapError
		switch {
		case errors.As(err, &gap):
			check.gap(gap.Topic, gap.First, gap.Count)
		case err != nil:
			t.Fatal(err)
		default:
			check.message(m.Topic, m.Number, m.Data)
		}
	}
	check.complete(pub.until(ofType("summary"), nil))
	if check.lost == 0 {
		t.Error("no message was lost permanently")
	}
	t.Logf("%d of %d messages were lost permanently", check.lost, len(msgs))
}

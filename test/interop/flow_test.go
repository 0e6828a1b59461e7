package interop

import (
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A subscriber that reads nothing blocks the publisher, and loses nothing.
func TestFlowControlPythonToGo(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	bus, reported := net.listenWith(t, ctx, pubsub.Config{Faults: "loss=0.05", ReceiveWindowBytes: 64 * 1472})
	sub := subscription(t, bus, pubsub.SlowConsumer(pubsub.SlowBlock))
	msgs := net.messages(2000)
	pub := publish(t, ctx, net, msgs)
	reported.wait(ctx, events.HoldsPublishersUp)
	check := newChecker(t, msgs)
	check.read(ctx, sub)
	check.complete(pub.until(ofType("summary"), nil))
}

// A publisher does not exceed the window of a subscriber with little room.
func TestFlowControlGoToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	for _, flow := range []pubsub.FlowControl{pubsub.FlowMin, pubsub.FlowTagged("book")} {
		t.Run(string(flow), func(t *testing.T) {
			ctx, net := testContext(t), newNetwork(t)
			bus := net.open(t, ctx, pubsub.Config{Faults: "loss=0.05", FlowControl: flow})
			sub := subscribeFaulty(t, ctx, net, "loss=0.05", streams(), "--window", "16", "--tag", "book")
			_, sum := net.toPython(t, ctx, bus, sub, 500, (*checker).line)
			if n := sum.Counters["overrun"] + sum.Counters["implausible"]; n != 0 {
				t.Errorf("%d packets exceeded the window, want none", n)
			}
		})
	}
}

// A publisher with a low limit of repairs sends NCFs with the expected delay.
func TestSlowRepairsPythonToGo(t *testing.T) {
	testenv.Slow(t)
	ctx, net := testContext(t), newNetwork(t)
	bus, _ := net.listen(t, ctx)
	sum := net.toGo(t, ctx, subscription(t, bus), "loss=0.05", 500, "--repair-rate", "30000")
	if sum.Counters["ncfs"] == 0 {
		t.Error("there was no NCF")
	}
}

package interop

import (
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// A subscriber that does not read holds the publisher up, and loses nothing.
func TestFlowControlPythonToGo(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // it waits most of the time
	ctx, net := testContext(t), newNetwork(t)
	bus, told := net.listenWith(t, ctx, pubsub.Config{Faults: "loss=0.05", ReceiveWindowBytes: 64 * 1472})
	sub := subscription(t, bus, pubsub.SlowConsumer(pubsub.SlowBlock))
	msgs := net.messages(2000)
	pub := publish(t, ctx, net, msgs)
	told.wait(ctx, events.HoldsPublishersUp)
	check := newChecker(t, msgs)
	check.read(ctx, sub)
	check.complete(pub.until(ofType("summary"), nil))
}

// A publisher stays within the window of a subscriber that has room for few packets.
func TestFlowControlGoToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // it waits most of the time
	for _, flow := range []pubsub.FlowControl{pubsub.FlowMin, pubsub.FlowTagged("book")} {
		t.Run(string(flow), func(t *testing.T) {
			ctx, net := testContext(t), newNetwork(t)
			bus := net.open(t, ctx, pubsub.Config{Faults: "loss=0.05", FlowControl: flow})
			sub := subscribeFaulty(t, ctx, net, "loss=0.05", streams(), "--window", "16", "--tag", "book")
			_, sum := net.toPython(t, ctx, bus, sub, 500, (*checker).line)
			if n := sum.Counters["overrun"] + sum.Counters["implausible"]; n != 0 {
				t.Errorf("%d packets came that there was no room for", n)
			}
		})
	}
}

// A publisher with few bytes of repairs a second says with NCFs how long they take.
func TestSlowRepairsPythonToGo(t *testing.T) {
	testenv.Slow(t)
	ctx, net := testContext(t), newNetwork(t)
	bus, _ := net.listen(t, ctx)
	sum := net.toGo(t, ctx, subscription(t, bus), "loss=0.05", 500, "--repair-rate", "30000")
	if sum.Counters["ncfs"] == 0 {
		t.Error("there was no NCF")
	}
}

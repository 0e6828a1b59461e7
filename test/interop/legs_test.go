package interop

import (
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// A subscriber with only the second leg of a publisher receives it, sends NAKs on that leg, and the publisher waits
// for it.
func TestSecondLegGoToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net, first := testContext(t), newNetwork(t), newNetwork(t)
	net.firstLeg = first.url()
	bus := net.open(t, ctx, pubsub.Config{Name: "go"})
	net.toPython(t, ctx, bus, subscribeFaulty(t, ctx, net, "loss=0.05", streams()), 1000, (*checker).line)
}

package interop

import (
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// Who is only on the second leg of a publisher hears it, asks by that, and is waited for.
func TestSecondLegGoToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // it waits most of the time
	ctx, net, first := testContext(t), newNetwork(t), newNetwork(t)
	net.before = first.url()
	bus := net.open(t, ctx, pubsub.Config{Name: "go"})
	net.toPython(t, ctx, bus, subscribeFaulty(t, ctx, net, "loss=0.05", streams()), 1000, (*checker).line)
}

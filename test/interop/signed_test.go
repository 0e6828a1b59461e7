package interop

import (
	"bytes"
	"crypto/ed25519"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// Signed messages arrive at Python, which does not verify them, with loss. docs/protocol §29.9.
func TestSignedGoesToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	bus := net.open(t, ctx, pubsub.Config{Sign: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))})
	_, sum := net.toPython(t, ctx, bus, subscribe(t, ctx, net, streams()), 1000, (*checker).line)
	t.Logf("counters of Python %v", sum.Counters)
}

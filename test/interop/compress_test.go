package interop

import (
	"os/exec"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub"
)

// What is compressed with S2 comes to Python, under loss: messages of one packet and of many.
// docs/protocol.md §26.1, §26.2.
func TestCompressedGoesToPython(t *testing.T) {
	ctx, net := testContext(t), newNetwork(t)
	net.alike = true
	bus := net.open(t, ctx, pubsub.Config{Compress: "s2:better"})
	_, sum := net.toPython(t, ctx, bus, subscribe(t, ctx, net, streams()), 1000, (*checker).line)
	packed := uint64(0)
	for _, p := range bus.Stats().Publications {
		packed += p.PacketsPacked
	}
	if packed == 0 {
		t.Error("nothing was compressed")
	}
	t.Logf("%d packets were compressed, %v", packed, sum.Counters)
}

// Python leaves Zstandard out: it takes such packets for those of another version.
// docs/protocol.md §26.7.
func TestPythonLeavesCodecsOut(t *testing.T) {
	python3(t)
	const program = `
import wire
b = bytearray(wire.put_header(wire.Header(wire.DATA, 0, 1, 2, 3)))
b[5] = 2
try:
    wire.parse_header(bytes(b))
except wire.WireError as e:
    print(e.reason)
`
	out, err := exec.Command("python3", "-c", program).CombinedOutput()
	if err != nil || string(out) != "version\n" {
		t.Errorf("%v: %s", err, out)
	}
}

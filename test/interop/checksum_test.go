package interop

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/engine"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// unchecked is UDP that claims not to protect packets: then packets carry a checksum, and packets
// without one are refused.
type unchecked struct{ transport.Transport }

func (u unchecked) Capabilities() transport.Capabilities {
	c := u.Transport.Capabilities()
	c.Checked = false
	return c
}

// Packets with a checksum that are damaged in the network count as lost, in both directions.
func TestChecksumsGoToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	loop := engine.Open(unchecked{net.transport(t)}, engine.Config{
		Sender:      reliable.SenderConfig{Silence: testTimeout, RepairShare: 0.5},
		WindowBytes: 8 << 20, WindowsBytes: 24 << 20, FlushAfter: 50 * time.Microsecond, Logger: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(func() { // closes without lingering, unless the test has closed the bus
		now, cancel := context.WithCancel(context.Background())
		cancel()
		_ = loop.Close(now)
	})
	sub := subscribeFaulty(t, ctx, net, "loss=0.05,damage=0.1", streams(), "--checksum")
	pubs := map[string]func([]byte) error{}
	for _, name := range topics {
		p, err := loop.Publication(int(wire.TopicID(name) % groups))
		if err != nil {
			t.Fatal(err)
		}
		topic, err := p.Topic(name)
		if err == nil {
			err = p.WaitReceivers(ctx, topic.ID, 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		pubs[name] = func(msg []byte) error { return p.Publish(ctx, topic, msg, true) }
	}
	msgs := net.messages(500)
	published := make(chan error, 1)
	go func() {
		for _, m := range msgs {
			if err := pubs[m.topic](m.data); err != nil {
				published <- err
				return
			}
		}
		published <- loop.Close(ctx)
	}()
	check := newChecker(t, msgs)
	sum := sub.until(ofType("summary"), check.line)
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	check.complete(sum)
	if sum.Counters["damaged"] == 0 {
		t.Errorf("no packet was damaged: %v", sum.Counters)
	}
}

func TestChecksumsPythonToGo(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	bus, _ := net.listen(t, ctx)
	net.toGo(t, ctx, subscription(t, bus), "loss=0.05,damage=0.1", 500, "--checksum")
	var damaged uint64
	for _, g := range bus.Stats().Groups {
		damaged += g.Damaged
	}
	if damaged == 0 {
		t.Error("no packet was damaged")
	}
}

// Package interop tests Fanfare against a second implementation of its protocol, in Python, that
// was written from docs/protocol.
package interop

import (
	"context"
	"os/exec"
	"strconv"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// subscribe starts sub.py for all topics; it exits after the given number of streams has ended.
func subscribe(t *testing.T, ctx context.Context, net *network, ends int) *process {
	t.Helper()
	return subscribeFaulty(t, ctx, net, "loss=0.05,dup=0.02,reorder=0.05", ends)
}

func subscribeFaulty(t *testing.T, ctx context.Context, net *network, faults string, ends int, more ...string) *process {
	t.Helper()
	more = append(more, "--name", "python", "--recovery", seconds, "--ends", strconv.Itoa(ends))
	sub := python(t, ctx, "sub.py", net.args(faults, append(more, topics...)...)...)
	sub.until(ofType("ready"), nil)
	return sub
}

// publish starts pub.py for all topics, with a timeout for slow machines, and writes messages to it in the background.
func publish(t *testing.T, ctx context.Context, net *network, msgs []message, more ...string) *process {
	t.Helper()
	return publishFaulty(t, ctx, net, "loss=0.05", msgs, more...)
}

func publishFaulty(t *testing.T, ctx context.Context, net *network, faults string, msgs []message, more ...string) *process {
	t.Helper()
	more = append(more, "--json", "--wait", "1", "--silence", seconds, "--linger", seconds)
	pub := python(t, ctx, "pub.py", net.args(faults, append(more, topics...)...)...)
	pub.until(ofType("ready"), nil)
	go func() {
		pub.write(msgs)
		pub.stdin.Close()
	}()
	return pub
}

// complete ends the test with loss: all messages arrived, with repairs.
func (c *checker) complete(sum line) {
	c.t.Helper()
	if c.left != 0 {
		c.t.Errorf("%d messages are missing", c.left)
	}
	if sum.Counters["naks"] == 0 {
		c.t.Errorf("no NAK was sent, so no repair was tested: %+v", sum)
	}
	c.t.Logf("%d packets lost by -faults, %v", sum.Dropped, sum.Counters)
}

// toPython publishes messages with a bus to sub.py, and calls each with each of its lines.
func (n *network) toPython(t *testing.T, ctx context.Context, bus *pubsub.Bus, sub *process, count int, each func(*checker, line)) (*checker, line) {
	t.Helper()
	pubs := publishers(t, ctx, bus, 1)
	msgs := n.messages(count)
	published := publishAll(ctx, bus, pubs, msgs)
	check := newChecker(t, msgs)
	sum := sub.until(ofType("summary"), func(l line) { each(check, l) })
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	check.complete(sum)
	return check, sum
}

// toGo publishes messages with pub.py to a subscription.
func (n *network) toGo(t *testing.T, ctx context.Context, sub *pubsub.Subscription, faults string, count int, more ...string) (summary line) {
	t.Helper()
	msgs := n.messages(count)
	pub := publishFaulty(t, ctx, n, faults, msgs, more...)
	check := newChecker(t, msgs)
	check.read(ctx, sub)
	summary = pub.until(ofType("summary"), nil)
	check.complete(summary)
	return summary
}

func TestGoToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	bus := net.open(t, ctx, pubsub.Config{Name: "go", Faults: "loss=0.05"})
	net.toPython(t, ctx, bus, subscribe(t, ctx, net, streams()), 2000, (*checker).line)
}

func TestPythonToGo(t *testing.T) {
	testenv.Slow(t)
	ctx, net := testContext(t), newNetwork(t)
	bus, reported := net.listen(t, ctx)
	sub := subscription(t, bus)
	msgs := net.messages(2000)
	pub := publish(t, ctx, net, msgs, "--name", "python")
	check := newChecker(t, msgs)
	check.read(ctx, sub)
	for range streams() {
		reported.wait(ctx, events.PublisherEnded)
	}
	bus.Close()
	for m, err := range sub.Messages(ctx) {
		t.Fatalf("after the last message: %d bytes of %s, error %v, want nothing", len(m.Data), m.Topic, err)
	}
	check.complete(pub.until(ofType("summary"), nil))
}

func TestPythonToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	msgs := net.messages(1000)
	sub := subscribe(t, ctx, net, streams())
	publish(t, ctx, net, msgs)
	check := newChecker(t, msgs)
	check.complete(sub.until(ofType("summary"), check.line))
}

// The codec in Python parses and builds the packets of docs/vectors.
func TestVectors(t *testing.T) {
	testenv.Slow(t)
	out, err := exec.Command(python3(t), "-B", "vectors.py").CombinedOutput()
	t.Logf("output of vectors.py:\n%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

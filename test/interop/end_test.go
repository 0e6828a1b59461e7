package interop

import (
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// singleEnds is how often a single END heartbeat is forged.
const singleEnds = 3

// A single END heartbeat does not end a stream in Python, but two do; the stream resumes where it
// stopped. docs/protocol §11.5, §11.6.
func TestForgedEndsGoToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	bus := net.open(t, ctx, pubsub.Config{Name: "go"})
	sub := python(t, ctx, "sub.py", net.args("", "--ends", "0", topics[0])...)
	pub, err := bus.Publisher(topics[0])
	if err == nil {
		err = pub.WaitSubscribers(ctx, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	reports := map[string]int{}
	publish := func(n uint64) {
		t.Helper()
		if err := pub.Publish(ctx, []byte{byte(n)}); err != nil {
			t.Fatal(err)
		}
		l := sub.until(func(l line) bool { return l.Type == "message" || l.Type == "gap" }, func(l line) { reports[l.Event]++ })
		if l.Type != "message" || l.Number != n {
			t.Fatalf("want message %d, got %+v", n, l)
		}
	}
	o := net.observe(t, int(wire.TopicID(topics[0])%groups))
	publish(0)
	for range singleEnds {
		o.end(o.next(ctx), 1)
	}
	publish(1)
	if reports["ended"] != 0 {
		t.Error("ended by a single END heartbeat")
	}
	for reports["ended"] == 0 {
		o.end(o.next(ctx), 2)
		sub.drain(func(l line) { reports[l.Event]++ })
	}
	publish(2)
	if reports["up"] < 2 {
		t.Errorf("messages continue after an end, but the publisher was not reported as up again: %v", reports)
	}
	for n := uint64(0); n < 8; n += o.next(ctx).Lead / 3 { // farewells go where the newest heartbeat came from: wait for true ones
	}
	if err := sub.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	sub.until(ofType("summary"), nil)
}

// The same from Python to Go. docs/protocol §11.5, §11.6.
func TestForgedEndsPythonToGo(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	bus, reported := net.listenWith(t, ctx, pubsub.Config{})
	sub, err := bus.Subscribe(topics[0])
	if err != nil {
		t.Fatal(err)
	}
	pub := python(t, ctx, "pub.py", net.args("", "--json", "--wait", "1", "--silence", seconds, "--linger", seconds, topics[0])...)
	o := net.observe(t, int(wire.TopicID(topics[0])%groups))
	reports := map[events.Kind]int{}
	drain := func() {
		for len(reported.ch) > 0 {
			reports[(<-reported.ch).Kind]++
		}
	}
	publish := func(n uint64) {
		t.Helper()
		pub.write([]message{{topics[0], []byte{byte(n)}}})
		m, err := sub.Next(ctx)
		if err != nil || m.Number != n {
			t.Fatalf("want message %d, got %d, error %v", n, m.Number, err)
		}
		drain()
	}
	publish(0)
	for range singleEnds {
		o.end(o.next(ctx), 1)
	}
	publish(1)
	if reports[events.PublisherEnded] != 0 {
		t.Error("ended by a single END heartbeat")
	}
	for reports[events.PublisherEnded] == 0 {
		o.end(o.next(ctx), 2)
		drain()
	}
	publish(2)
	if reports[events.PublisherUp] < 2 {
		t.Errorf("messages continue after an end, but the publisher was not reported as up again: %v", reports)
	}
	pub.stdin.Close()
	pub.until(ofType("summary"), nil)
}

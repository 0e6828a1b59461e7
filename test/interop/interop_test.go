// Package interop runs Fanfare against a second implementation of its protocol,
// in Python, that was written from docs/protocol.md.
package interop

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/reliable"
)

// network is where the two sides of a test meet; no other run does.
type network struct {
	seed uint64
	rng  *rand.Rand
	base string
	port int
}

// newNetwork takes its seed, of messages and faults, from FANFARE_SEED.
func newNetwork(t *testing.T) *network {
	t.Helper()
	python3(t)
	n := &network{seed: rand.Uint64N(1 << 32), port: 20000 + rand.IntN(10000)}
	n.base = fmt.Sprintf("239.%d.%d.0", 21+rand.IntN(200), rand.IntN(256))
	if env := os.Getenv("FANFARE_SEED"); env != "" {
		var err error
		if n.seed, err = strconv.ParseUint(env, 10, 64); err != nil {
			t.Fatalf("FANFARE_SEED: %v", err)
		}
	}
	t.Logf("FANFARE_SEED=%d", n.seed)
	n.rng = rand.New(rand.NewPCG(n.seed, 0))
	return n
}

const groups = 4

func (n *network) url() string {
	return fmt.Sprintf("udp://%s/24?iface=lo&port=%d&groups=%d", n.base, n.port, groups)
}

// args are those of a Python program on the network, with faults.
func (n *network) args(faults string, more ...string) []string {
	a := []string{"--base", n.base, "--port", strconv.Itoa(n.port), "--groups", strconv.Itoa(groups)}
	if faults != "" {
		a = append(a, "--faults", n.seeded(faults))
	}
	return append(a, more...)
}

func (n *network) seeded(faults string) string { return fmt.Sprintf("%s,seed=%d", faults, n.seed) }

// open opens a bus whose patience is for machines that are slow.
func (n *network) open(t *testing.T, ctx context.Context, c pubsub.Config) *pubsub.Bus {
	t.Helper()
	if c.Faults != "" {
		c.Faults = n.seeded(c.Faults)
	}
	c.Silence, c.StallLimit, c.RecoveryDeadline, c.Linger = time.Minute, pubsub.NoStallLimit, time.Minute, 2*time.Minute
	c.Logger = slog.New(slog.DiscardHandler)
	bus, err := c.Open(ctx, n.url())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bus.Close() })
	return bus
}

// message is one that is published.
type message struct {
	topic string
	data  []byte
}

var topics = []string{"news", "md.xnas.AAPL", "sports/é"}

// messages makes n messages of all topics; every hundredth takes many packets.
func (n *network) messages(count int) []message {
	out := make([]message, count)
	for i := range out {
		size := n.rng.IntN(400)
		switch {
		case i%100 == 50:
			size = 1000 + n.rng.IntN(100_000)
		case i%10 == 5:
			size = 1350 + n.rng.IntN(200) // around what just fits a packet
		}
		data := make([]byte, size)
		for j := range data {
			data[j] = byte(n.rng.Uint32())
		}
		out[i] = message{topics[n.rng.IntN(len(topics))], data}
	}
	return out
}

// checker compares what is delivered with what was published: each topic in
// order, everything once, nothing else.
type checker struct {
	t    *testing.T
	want map[string][][]byte
	got  map[string]uint64
	left int
}

func newChecker(t *testing.T, msgs []message) *checker {
	c := &checker{t: t, want: map[string][][]byte{}, got: map[string]uint64{}, left: len(msgs)}
	for _, m := range msgs {
		c.want[m.topic] = append(c.want[m.topic], m.data)
	}
	return c
}

func (c *checker) message(topic string, number uint64, data []byte) {
	c.t.Helper()
	want := c.want[topic]
	switch {
	case number != c.got[topic]:
		c.t.Fatalf("%s: message %d came where %d is next", topic, number, c.got[topic])
	case number >= uint64(len(want)):
		c.t.Fatalf("%s: message %d came of %d", topic, number, len(want))
	case !bytes.Equal(data, want[number]):
		c.t.Fatalf("%s: message %d differs: %d bytes, published were %d", topic, number, len(data), len(want[number]))
	}
	c.got[topic]++
	c.left--
}

// line checks a line of sub.py.
func (c *checker) line(l line) {
	c.t.Helper()
	switch l.Type {
	case "message":
		c.message(l.Topic, l.Number, l.Data)
	case "gap", "mismatch":
		c.t.Fatalf("%+v", l)
	}
}

// streams is how many groups the topics map to: each is a stream.
func streams() int {
	seen := map[uint64]bool{}
	for _, name := range topics {
		seen[reliable.TopicID(name)%groups] = true
	}
	return len(seen)
}

// events collects what a bus tells.
type events struct {
	t  *testing.T
	ch chan pubsub.Event
}

// listen opens a bus that receives, and tells its events.
func (n *network) listen(t *testing.T, ctx context.Context) (*pubsub.Bus, *events) {
	e := &events{t, make(chan pubsub.Event, 1024)}
	bus := n.open(t, ctx, pubsub.Config{Faults: "loss=0.05,dup=0.02,reorder=0.05", OnEvent: func(x pubsub.Event) {
		select {
		case e.ch <- x:
		default: // nobody waits for so many
		}
	}})
	return bus, e
}

// wait is for the next event of a kind.
func (e *events) wait(ctx context.Context, kind pubsub.EventKind) pubsub.Event {
	e.t.Helper()
	for {
		select {
		case x := <-e.ch:
			if x.Kind == kind {
				return x
			}
			e.t.Logf("%v", x)
		case <-ctx.Done():
			e.t.Fatalf("no event %v: %v", kind, ctx.Err())
		}
	}
}

// publishers makes one for each topic, which has been heard of by so many subscribers.
func publishers(t *testing.T, ctx context.Context, bus *pubsub.Bus, subscribers int) map[string]*pubsub.Publisher {
	t.Helper()
	pubs := map[string]*pubsub.Publisher{}
	for _, name := range topics {
		p, err := bus.Publisher(name)
		if err == nil {
			err = p.WaitSubscribers(ctx, subscribers)
		}
		if err != nil {
			t.Fatal(err)
		}
		pubs[name] = p
	}
	return pubs
}

// subscribe starts sub.py for all topics; it ends when so many streams have ended.
func subscribe(t *testing.T, ctx context.Context, net *network, ends int, more ...string) *process {
	t.Helper()
	more = append(more, "--name", "python", "--recovery", "60", "--ends", strconv.Itoa(ends))
	sub := start(t, ctx, "sub.py", net.args("loss=0.05,dup=0.02,reorder=0.05", append(more, topics...)...)...)
	sub.until(ofType("ready"), nil)
	return sub
}

// publish starts pub.py for all topics, with a patience for slow machines, and writes
// messages to it in the background.
func publish(t *testing.T, ctx context.Context, net *network, msgs []message, more ...string) *process {
	t.Helper()
	more = append(more, "--json", "--wait", "1", "--silence", "60", "--linger", "120")
	pub := start(t, ctx, "pub.py", net.args("loss=0.05", append(more, topics...)...)...)
	pub.until(ofType("ready"), nil)
	go func() {
		pub.write(msgs)
		pub.stdin.Close()
	}()
	return pub
}

// complete ends the test of a lossy way: everything came, and something was lost on it.
func (c *checker) complete(sum line) {
	c.t.Helper()
	if c.left != 0 {
		c.t.Errorf("%d messages are missing", c.left)
	}
	if sum.Dropped == 0 || sum.Counters["naks"] == 0 {
		c.t.Errorf("%d packets were lost on purpose, %d NAKs: nothing was tested", sum.Dropped, sum.Counters["naks"])
	}
	c.t.Logf("%d packets lost on purpose, %v", sum.Dropped, sum.Counters)
}

func TestGoToPython(t *testing.T) {
	ctx, net := testContext(t), newNetwork(t)
	bus := net.open(t, ctx, pubsub.Config{Name: "go", Faults: "loss=0.05"})
	sub := subscribe(t, ctx, net, streams())
	pubs := publishers(t, ctx, bus, 1)
	msgs := net.messages(2000)
	published := make(chan error, 1)
	go func() {
		for _, m := range msgs {
			if err := pubs[m.topic].Publish(ctx, m.data); err != nil {
				published <- err
				return
			}
		}
		published <- bus.Close()
	}()
	check := newChecker(t, msgs)
	sum := sub.until(ofType("summary"), check.line)
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	check.complete(sum)
}

func TestPythonToGo(t *testing.T) {
	ctx, net := testContext(t), newNetwork(t)
	bus, events := net.listen(t, ctx)
	sub, err := bus.Subscribe(topics[0], pubsub.Topics(topics[1:]...))
	if err != nil {
		t.Fatal(err)
	}
	msgs := net.messages(2000)
	pub := publish(t, ctx, net, msgs, "--name", "python")
	check := newChecker(t, msgs)
	for check.left > 0 {
		m, err := sub.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		check.message(m.Topic, m.Number, m.Data)
		if m.PublisherName != "python" {
			t.Fatalf("the publisher is called %q", m.PublisherName)
		}
	}
	for range streams() {
		events.wait(ctx, pubsub.PublisherEnded)
	}
	bus.Close()
	for m, err := range sub.Messages(ctx) {
		t.Fatalf("behind the last message: %d bytes on %s, %v", len(m.Data), m.Topic, err)
	}
	check.complete(pub.until(ofType("summary"), nil))
}

func TestPythonToPython(t *testing.T) {
	ctx, net := testContext(t), newNetwork(t)
	msgs := net.messages(1000)
	sub := subscribe(t, ctx, net, streams())
	publish(t, ctx, net, msgs)
	check := newChecker(t, msgs)
	check.complete(sub.until(ofType("summary"), check.line))
}

// TestVectors has the codec in Python read and write the packets of docs/vectors.
func TestVectors(t *testing.T) {
	out, err := exec.Command(python3(t), "-B", "vectors.py").CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

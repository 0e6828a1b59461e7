package interop

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// network is the network of the two sides of a test, unused by others.
type network struct {
	seed uint64
	rng  *rand.Rand
	base string
	port int

	mapping      string // mapping of topics to groups; empty: by hash
	compressible bool   // messages are similar to each other, so that they can be compressed
	firstLeg     string // URL of a leg of Go's buses that precedes this network; empty: none
}

// newNetwork takes the seed of messages and faults from FANFARE_SEED.
func newNetwork(t *testing.T) *network {
	t.Helper()
	python3(t)
	n := &network{seed: rand.Uint64N(1 << 32), port: testenv.Port(t)}
	n.base = fmt.Sprintf("239.%d.%d.0", n.port>>8, n.port&0xff)
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
	u := fmt.Sprintf("udp://%s/24?iface=lo&port=%d&groups=%d", n.base, n.port, groups)
	if n.mapping != "" {
		u += "&map=" + n.mapping
	}
	return u
}

// args returns the arguments of a Python program on the network, with faults.
func (n *network) args(faults string, more ...string) []string {
	a := []string{"--base", n.base, "--port", strconv.Itoa(n.port), "--groups", strconv.Itoa(groups)}
	if n.mapping != "" {
		a = append(a, "--map", n.mapping)
	}
	if faults != "" {
		a = append(a, "--faults", n.seeded(faults))
	}
	return append(a, more...)
}

func (n *network) seeded(faults string) string { return fmt.Sprintf("%s,seed=%d", faults, n.seed) }

// testTimeout bounds waits, even on slow machines.
const testTimeout = 2 * time.Minute

// seconds is testTimeout as an argument of the Python programs.
var seconds = strconv.Itoa(int(testTimeout.Seconds()))

// open opens a bus that lingers for testTimeout.
func (n *network) open(t *testing.T, ctx context.Context, c pubsub.Config) *pubsub.Bus {
	t.Helper()
	if c.Faults != "" {
		c.Faults = n.seeded(c.Faults)
	}
	c.Silence, c.StallLimit, c.RecoveryDeadline, c.Linger = testTimeout, pubsub.NoStallLimit, testTimeout, testTimeout
	c.Logger = slog.New(slog.DiscardHandler)
	urls := []string{n.url()}
	if n.firstLeg != "" {
		urls = []string{n.firstLeg, urls[0]}
	}
	bus, err := c.Open(ctx, urls[0], urls[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bus.Close() })
	return bus
}

// message is a message to publish.
type message struct {
	topic string
	data  []byte
}

var topics = []string{"news", "md.xnas.AAPL", "sports/é"}

// messages returns count messages on all topics; every hundredth takes many packets.
func (n *network) messages(count int) []message {
	out := make([]message, count)
	for i := range out {
		size := n.rng.IntN(400)
		switch {
		case i%100 == 50:
			size = 1000 + n.rng.IntN(100_000)
		case i%10 == 5:
			size = 1350 + n.rng.IntN(200) // around the size that just fits in a packet
		}
		data := make([]byte, size)
		for j := range data {
			if data[j] = byte(n.rng.Uint32()); n.compressible {
				data[j] = byte(i + j>>6)
			}
		}
		out[i] = message{topics[n.rng.IntN(len(topics))], data}
	}
	return out
}

// checker compares deliveries with what was published: each topic in order, each message once, no others.
type checker struct {
	t    *testing.T
	want map[string][][]byte
	got  map[string]uint64
	left int
	lost int // messages in gaps

	rounds bool // the messages are published repeatedly
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
	want, i := c.want[topic], number
	if c.rounds {
		i %= uint64(len(want))
	}
	switch {
	case number != c.got[topic]:
		c.t.Fatalf("%s: message %d, want %d", topic, number, c.got[topic])
	case i >= uint64(len(want)):
		c.t.Fatalf("%s: message %d, but only %d were published", topic, number, len(want))
	case !bytes.Equal(data, want[i]):
		c.t.Fatalf("%s: message %d differs: %d bytes, %d were published", topic, number, len(data), len(want[i]))
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
		c.t.Fatalf("Python printed %+v, want no gap and no mismatch", l)
	}
}

// streams returns the number of groups of the topics: each is a stream.
func streams() int {
	seen := map[uint64]bool{}
	for _, name := range topics {
		seen[wire.TopicID(name)%groups] = true
	}
	return len(seen)
}

// eventLog collects the events of a bus.
type eventLog struct {
	t  *testing.T
	ch chan events.Event
}

// listen opens a bus that receives, and collects its events.
func (n *network) listen(t *testing.T, ctx context.Context) (*pubsub.Bus, *eventLog) {
	return n.listenWith(t, ctx, pubsub.Config{Faults: "loss=0.05,dup=0.02,reorder=0.05"})
}

func (n *network) listenWith(t *testing.T, ctx context.Context, c pubsub.Config) (*pubsub.Bus, *eventLog) {
	e := &eventLog{t, make(chan events.Event, 1024)}
	c.OnEvent = func(x events.Event) {
		select {
		case e.ch <- x:
		default: // more events than any test waits for
		}
	}
	return n.open(t, ctx, c), e
}

// wait returns the next event of a kind.
func (e *eventLog) wait(ctx context.Context, kind events.Kind) events.Event {
	e.t.Helper()
	for {
		select {
		case x := <-e.ch:
			if x.Kind == kind {
				return x
			}
			e.t.Logf("other event: %v", x)
		case <-ctx.Done():
			e.t.Fatalf("no event %v: %v", kind, ctx.Err())
		}
	}
}

// publishers returns a publisher for each topic, with the given number of subscribers.
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

// publishAll publishes messages in the background, and then closes the bus.
func publishAll(ctx context.Context, bus *pubsub.Bus, pubs map[string]*pubsub.Publisher, msgs []message) <-chan error {
	done := make(chan error, 1)
	go func() {
		for _, m := range msgs {
			if err := pubs[m.topic].Publish(ctx, m.data); err != nil {
				done <- err
				return
			}
		}
		done <- bus.Close()
	}()
	return done
}

// subscription subscribes to all topics.
func subscription(t *testing.T, bus *pubsub.Bus, options ...pubsub.SubscribeOption) *pubsub.Subscription {
	t.Helper()
	sub, err := bus.Subscribe(topics[0], append(options, pubsub.Topics(topics[1:]...))...)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// read reads a subscription until no message is missing.
func (c *checker) read(ctx context.Context, sub *pubsub.Subscription) {
	c.t.Helper()
	for c.left > 0 {
		m, err := sub.Next(ctx)
		if err != nil {
			c.t.Fatal(err)
		}
		c.message(m.Topic, m.Number, m.Data)
	}
}

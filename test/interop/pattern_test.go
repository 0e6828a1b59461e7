package interop

import (
	"context"
	"maps"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub"
)

// Patterns have all that a Python publisher sends, under loss: it puts the names of its topics
// into the stream before their first messages, and tells them when it is asked.
// docs/protocol.md §9.9, §10.8.
func TestPatternsOfPython(t *testing.T) {
	ctx, net := testContext(t), newNetwork(t)
	bus, _ := net.listenWith(t, ctx, pubsub.Config{Faults: "loss=0.05,dup=0.02,reorder=0.05"})
	sub, err := bus.Subscribe("*", pubsub.Topics("md.*.AAPL", "md.>"))
	if err != nil {
		t.Fatal(err)
	}
	sum := net.toGo(t, ctx, sub, "loss=0.05", 1000)
	if st := bus.Stats(); st.Groups[0].NamesRefused != 0 {
		t.Errorf("names were refused: %+v", st.Groups[0])
	}
	t.Logf("%v", sum.Counters)
}

// One that begins with the window has the messages from before, too.
func TestPatternFromWindowOfPython(t *testing.T) {
	ctx, net := testContext(t), newNetwork(t)
	first, _ := net.listenWith(t, ctx, pubsub.Config{})
	live := subscription(t, first)
	msgs := net.messages(100)
	pub := python(t, ctx, "pub.py", net.args("loss=0.05", append([]string{"--json", "--wait", "1", "--silence", seconds, "--linger", seconds}, topics...)...)...)
	pub.until(ofType("ready"), nil)
	pub.write(msgs)
	check := newChecker(t, msgs)
	check.read(ctx, live)
	late, _ := net.listenWith(t, ctx, pubsub.Config{Faults: "loss=0.05"})
	sub, err := late.Subscribe(">", pubsub.From(pubsub.Window))
	if err != nil {
		t.Fatal(err)
	}
	again := newChecker(t, msgs)
	again.read(ctx, sub)
	pub.stdin.Close()
	pub.until(ofType("summary"), nil)
	if check.left+again.left != 0 {
		t.Errorf("%d and %d messages are missing", check.left, again.left)
	}
}

// patterns starts sub.py with patterns; it ends when so many streams have ended.
func (n *network) patterns(t *testing.T, ctx context.Context, faults string, ends int, patterns ...string) *process {
	t.Helper()
	sub := python(t, ctx, "sub.py", n.args(faults, append([]string{"--recovery", seconds, "--ends", strconv.Itoa(ends)}, patterns...)...)...)
	sub.until(ofType("ready"), nil)
	return sub
}

// Python's patterns have all that Go publishes on topics that match, and nothing else, under loss:
// from the first message on.
func TestPatternsToPython(t *testing.T) {
	ctx, net := testContext(t), newNetwork(t)
	bus := net.open(t, ctx, pubsub.Config{Name: "go", Faults: "loss=0.05"})
	sub := net.patterns(t, ctx, "loss=0.05,dup=0.02,reorder=0.05", streams(), "*", "md.*.AAPL", "md.>")
	check, sum := net.toPython(t, ctx, bus, sub, 1000, func(c *checker, l line) {
		if l.Topic == "sports/é" || l.Topic == "news" || l.Topic == "md.xnas.AAPL" || l.Topic == "" {
			c.line(l)
			return
		}
		t.Errorf("%+v", l)
	})
	if sum.Counters["names_refused"]+sum.Counters["nameless"] > 0 {
		t.Errorf("names were refused, or did not come: %v", sum.Counters)
	}
	t.Logf("%d messages are missing", check.left)
}

// Python's patterns that come when Go is in full flight ask for the names of the topics that there
// are. They have each message from where they begin, of each topic that matches: packets of
// topics without a name wait. docs/protocol.md §9.9.
func TestLatePatternsOfPython(t *testing.T) {
	ctx, net := testContext(t), newNetwork(t)
	bus := net.open(t, ctx, pubsub.Config{Faults: "loss=0.05", WindowBytes: 128 << 10}) // so that packets with names are gone
	there, _ := net.listenWith(t, ctx, pubsub.Config{})
	live := subscription(t, there)
	pubs := publishers(t, ctx, bus, 1)
	msgs := net.messages(20_000)
	published := make(chan map[string]uint64, 1)
	var begun atomic.Bool
	go func() {
		n := map[string]uint64{}
		more := 200
		for _, m := range msgs {
			if err := pubs[m.topic].Publish(ctx, m.data); err != nil {
				t.Error(err)
				break
			}
			n[m.topic]++
			if begun.Load() {
				if more--; more == 0 {
					break
				}
			}
			time.Sleep(500 * time.Microsecond) // it is read by a slow program
		}
		published <- n
	}()
	seen := make(chan struct{}) // by the other one, which reads all: else it would hold the publisher up
	over, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for i := 0; ; i++ {
			if _, err := live.Next(over); err != nil {
				return
			}
			if i == 500 {
				close(seen)
			}
		}
	}()
	<-seen
	sub := net.patterns(t, ctx, "loss=0.05", 0, "md.>", "*", "sports.nothing")
	check, first := newChecker(t, msgs), map[string]uint64{}
	take := func(l line) {
		switch l.Type {
		case "gap":
			t.Fatalf("%+v", l)
		case "message":
			if _, ok := first[l.Topic]; !ok {
				first[l.Topic], check.got[l.Topic] = l.Number, l.Number
			}
			check.message(l.Topic, l.Number, l.Data)
		}
	}
	for len(first) < len(topics) {
		l, ok := sub.next()
		if !ok {
			t.Fatalf("ended, with messages of %v", first)
		}
		take(l)
	}
	begun.Store(true)
	n := <-published
	for !maps.Equal(check.got, n) {
		l, ok := sub.next()
		if !ok {
			t.Fatalf("ended at %v of %v", check.got, n)
		}
		take(l)
	}
	if err := sub.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	sum := sub.until(ofType("summary"), nil)
	if sum.Counters["waits_for_names"] == 0 {
		t.Error("no packet waited for the name of its topic")
	}
	t.Logf("began with %v of %v, %v", first, n, sum.Counters)
}

package interop

import (
	"context"
	"maps"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// Subscriptions to patterns receive everything that a Python publisher sends, with loss: it sends the names of its
// topics in the stream before their first messages. docs/protocol §9.9, §10.8.
func TestPatternsOfPython(t *testing.T) {
	testenv.Slow(t)
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
	t.Logf("counters of Python %v", sum.Counters)
}

// A pattern that begins with the window also receives earlier messages.
func TestPatternFromWindowOfPython(t *testing.T) {
	testenv.Slow(t)
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
		t.Errorf("%d and %d messages are missing, want none", check.left, again.left)
	}
}

// patterns starts sub.py with patterns; it exits after the given number of streams has ended.
func (n *network) patterns(t *testing.T, ctx context.Context, faults string, ends int, patterns ...string) *process {
	t.Helper()
	sub := python(t, ctx, "sub.py", n.args(faults, append([]string{"--recovery", seconds, "--ends", strconv.Itoa(ends)}, patterns...)...)...)
	sub.until(ofType("ready"), nil)
	return sub
}

// Python's patterns receive all messages that Go publishes on matching topics, and no others, with
// loss, from the first message on.
func TestPatternsToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	bus := net.open(t, ctx, pubsub.Config{Name: "go", Faults: "loss=0.05"})
	sub := net.patterns(t, ctx, "loss=0.05,dup=0.02,reorder=0.05", streams(), "*", "md.*.AAPL", "md.>")
	check, sum := net.toPython(t, ctx, bus, sub, 1000, func(c *checker, l line) {
		if l.Topic == "sports/é" || l.Topic == "news" || l.Topic == "md.xnas.AAPL" || l.Topic == "" {
			c.line(l)
			return
		}
		t.Errorf("Python printed %+v, want a topic of the patterns", l)
	})
	if sum.Counters["names_refused"]+sum.Counters["nameless"] > 0 {
		t.Errorf("names were refused, or are missing: %v", sum.Counters)
	}
	t.Logf("%d messages are missing", check.left)
}

// Python's patterns that begin while Go is publishing ask for the topics. They receive each message of each matching
// topic from its topic run on. The publisher does not wait for the subscriber before it has discovered it: after a gap
// the test is repeated. docs/protocol §9.9.
func TestLatePatternsOfPython(t *testing.T) {
	testenv.Slow(t)
	const attempts = 20
	for range attempts {
		if latePatterns(t) || t.Failed() {
			return
		}
	}
	t.Errorf("messages were lost %d times", attempts)
}

// latePatterns reports whether no message was lost.
func latePatterns(t *testing.T) bool {
	ctx, net := testContext(t), newNetwork(t)
	// The window no longer holds the packets with names, and holds what is published in the second
	// until the publisher has discovered the program and waits for it.
	const window = 2 << 20
	bus := net.open(t, ctx, pubsub.Config{Faults: "loss=0.05", WindowBytes: window})
	there, _ := net.listenWith(t, ctx, pubsub.Config{})
	live := subscription(t, there)
	pubs := publishers(t, ctx, bus, 1)
	msgs := net.messages(10_000)
	over, stop := context.WithCancel(ctx)
	defer stop()
	n := map[string]uint64{} // valid once published is closed
	published, gone := make(chan struct{}), make(chan struct{})
	var begun atomic.Bool
	go func() {
		defer close(published)
		for i, bytes, more := 0, 0, 200; more > 0; i++ {
			m := msgs[i%len(msgs)]
			if err := pubs[m.topic].Publish(over, m.data); err != nil {
				if over.Err() == nil {
					t.Error(err)
				}
				return
			}
			n[m.topic]++
			was := bytes
			if bytes += len(m.data); bytes > 2*window {
				if was <= 2*window {
					close(gone)
				}
				time.Sleep(500 * time.Microsecond) // the reader is a slow program
			}
			if begun.Load() {
				more--
			}
		}
	}()
	defer func() {
		stop()
		<-published
	}()
	go func() { // the live subscription reads everything, so that it does not block the publisher
		for {
			if _, err := live.Next(over); err != nil {
				if over.Err() == nil {
					t.Error(err)
				}
				return
			}
		}
	}()
	select {
	case <-gone:
	case <-published:
		t.FailNow()
	}
	sub := net.patterns(t, ctx, "loss=0.05", 0, "md.>", "*", "sports.nothing")
	summary := func() line {
		if err := sub.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		return sub.until(ofType("summary"), nil)
	}
	check, first := newChecker(t, msgs), map[string]uint64{}
	check.rounds = true
	overrun := false
	handle := func(l line) {
		switch l.Type {
		case "gap":
			sum, pub := summary(), bus.Stats()
			if len(first) == len(topics) {
				t.Fatalf("message %+v at %v, counters %v, publisher %+v, want names of all topics", l, check.got, sum.Counters, pub)
			}
			t.Logf("%+v: the publisher may not have discovered the subscriber yet", l)
			overrun = true
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
		if handle(l); overrun {
			return false
		}
	}
	begun.Store(true)
	<-published
	for !maps.Equal(check.got, n) {
		l, ok := sub.next()
		if !ok {
			t.Fatalf("ended at %v of %v", check.got, n)
		}
		handle(l)
	}
	sum := summary()
	t.Logf("began with %v of %v, %v", first, n, sum.Counters)
	return true
}

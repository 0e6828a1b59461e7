package interop

import (
	"testing"

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

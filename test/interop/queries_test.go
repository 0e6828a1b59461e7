package interop

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// manyTopics returns topics of one group, more than a status can list by id: Python lists the first of them.
func manyTopics() []string {
	var names []string
	for i := 0; len(names) <= 2*wire.MaxStatusTopics; i++ {
		if name := fmt.Sprintf("t.%d", i); wire.TopicID(name)%groups == 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(wire.TopicID(a), wire.TopicID(b)) })
	return names
}

// Python subscribers answer whether they want a topic: one of more topics than a status lists, and
// one of patterns. docs/protocol §7.10.
func TestQueriesToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	names := manyTopics()
	last, none := names[len(names)-1], names[0]
	for kind, topics := range map[string][]string{"topics": names[1:], "pattern": {"t.*." + last[2:], "*." + last[2:]}} {
		t.Run(kind, func(t *testing.T) {
			ctx, net := testContext(t), newNetwork(t)
			sub := python(t, ctx, "sub.py", net.args("loss=0.05", append([]string{"--ends", "0"}, topics...)...)...)
			sub.until(ofType("ready"), nil)
			bus := net.open(t, ctx, pubsub.Config{Faults: "loss=0.05"})
			unwanted, err := bus.Publisher(none)
			if err != nil {
				t.Fatal(err)
			}
			pub, err := bus.Publisher(last)
			if err == nil {
				err = pub.WaitSubscribers(ctx, 1)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bus.Request(ctx, none, nil); err == nil || unwanted.Subscribers() != 0 {
				t.Errorf("%d subscribers are counted for a topic that none wants, and a request returns %v", unwanted.Subscribers(), err)
			}
			if n := pub.Subscribers(); n != 1 {
				t.Errorf("%d subscribers are counted, want 1", n)
			}
			if err := sub.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			sub.until(ofType("summary"), nil)
		})
	}
}

// maxHeartbeats is the number of heartbeats of a waiting publisher that the test checks.
const maxHeartbeats = 20

// A Python publisher counts a subscriber whose statuses do not list all topics once the subscriber
// answers that it wants the topic. docs/protocol §7.10.
func TestQueriesOfPython(t *testing.T) {
	testenv.Slow(t)
	ctx, net := testContext(t), newNetwork(t)
	names := manyTopics()
	topic := names[len(names)-1]
	listen := func(topics ...string) *pubsub.Subscription {
		t.Helper()
		bus, reported := net.listenWith(t, ctx, pubsub.Config{Faults: "loss=0.05"})
		sub, err := bus.Subscribe(topics[0], pubsub.Topics(topics[1:]...))
		if err != nil {
			t.Fatal(err)
		}
		reported.wait(ctx, events.PublisherUp)
		return sub
	}
	pub := python(t, ctx, "pub.py", net.args("loss=0.05", "--wait", "2", "--silence", seconds, "--linger", seconds, topic)...)
	pub.until(ofType("ready"), nil)
	if _, err := fmt.Fprintln(pub.stdin, "first"); err != nil {
		t.Fatal(err)
	}
	o := net.observe(t, 0)
	listen("other.>", "md.*")
	listen(names[:len(names)-1]...)
	for n := 0; n < maxHeartbeats; {
		hb := o.next(ctx)
		if o.messages {
			t.Fatalf("published to %d receivers that do not want the topic", hb.Receivers)
		}
		if hb.Receivers == 2 {
			n++
		}
	}
	for _, sub := range []*pubsub.Subscription{listen("t.*"), listen(names...)} {
		if m, err := sub.Next(ctx); err != nil || m.Number != 0 {
			t.Fatalf("want the first message, got %d of %s: %v", m.Number, m.Topic, err)
		}
	}
	if hb := o.next(ctx); hb.Asked != wire.TopicID(topic) {
		t.Errorf("heartbeats query topic %d, want %d", hb.Asked, wire.TopicID(topic))
	}
	pub.stdin.Close()
	pub.until(ofType("summary"), nil)
}

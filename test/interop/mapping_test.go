package interop

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Both sides map topics to the same groups, with each strategy.
func TestMappings(t *testing.T) {
	table := filepath.Join(t.TempDir(), "groups")
	if err := os.WriteFile(table, []byte("# all but the news\nmd.> 3 # prices\nsports/é 1-2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, mapping := range map[string]string{"prefix": "prefix:2", "table": "table:" + table} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each uses other addresses
			ctx, net := testContext(t), newNetwork(t)
			net.mapping = mapping
			bus, _ := net.listenWith(t, ctx, pubsub.Config{})
			sub := subscription(t, bus)
			msgs := net.messages(300)
			check := newChecker(t, msgs)
			pub := publishFaulty(t, ctx, net, "loss=0.01", msgs)
			check.read(ctx, sub)
			pub.until(ofType("summary"), nil)
			if check.left != 0 {
				t.Errorf("%d messages are missing", check.left)
			}
		})
	}
}

// Buses that map topics differently report each other.
func TestMappingsDiffer(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	bus, reported := net.listenWith(t, ctx, pubsub.Config{Name: "go"})
	if _, err := bus.Subscribe(topics[1]); err != nil {
		t.Fatal(err)
	}
	net.mapping = "prefix:1"
	pub := python(t, ctx, "pub.py", append(net.args(""), "--name", "python", "--wait", "1", topics[1])...)
	var mismatch *events.ConfigMismatchError
	if e := reported.wait(ctx, events.ConfigMismatch); !errors.As(e.Err, &mismatch) || mismatch.Name != "python" {
		t.Fatalf("event %v, want a mismatch with python", e)
	}
	if d := mismatch.Differences[0]; d.Field != events.FieldMapping || d.Ours != "hash" || d.Theirs != "prefix:1" {
		t.Errorf("difference %+v, want mapping hash here and prefix:1 there", d)
	}
	l := pub.until(ofType("mismatch"), nil)
	if len(l.Mine) != 3 || l.Mine[1] != 2 || l.Mine[2] != 1 || l.Theirs[1] != 1 || l.Theirs[2] != 0 {
		t.Errorf("the publisher reports %+v, want mapping 2, 1 here and 1, 0 there", l)
	}
}

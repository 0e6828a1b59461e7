package interop

import (
	"errors"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Buses with different numbers of groups may share no group: they discover each other by hellos to
// group 0, and by the answers.
func TestHelloPythonToGo(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	bus, reported := net.listenWith(t, ctx, pubsub.Config{Name: "go"})
	if _, err := bus.Subscribe(topics[0]); err != nil {
		t.Fatal(err)
	}
	args := append(net.args(""), "--groups", "7", "--name", "python", "--wait", "1", topics[0])
	pub := python(t, ctx, "pub.py", args...)
	e := reported.wait(ctx, events.ConfigMismatch)
	var mismatch *events.ConfigMismatchError
	if !errors.As(e.Err, &mismatch) || mismatch.Name != "python" {
		t.Fatalf("event %v, want a mismatch with python", e)
	}
	if d := mismatch.Differences[0]; d.Field != events.FieldGroups || d.Ours != "4" || d.Theirs != "7" {
		t.Errorf("difference %+v, want groups 4 here and 7 there", d)
	}
	l := pub.until(ofType("mismatch"), nil)
	if len(l.Mine) != 3 || l.Mine[0] != 7 || l.Theirs[0] != groups {
		t.Errorf("the publisher reports %+v, want 7 groups here and %d there", l, groups)
	}
}

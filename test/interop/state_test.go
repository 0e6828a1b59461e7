package interop

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// joiner is a checker that begins with state: the last message of each topic, and then the following ones.
type joiner struct {
	*checker
	states map[string]uint64 // numbers, by topic
}

// state processes the state of a topic, which is its last message before a number.
func (j *joiner) state(topic string, number uint64, data []byte) {
	j.t.Helper()
	want := j.want[topic]
	if _, duplicate := j.states[topic]; duplicate || number == 0 || number > uint64(len(want)) || !bytes.Equal(data, want[number-1]) {
		j.t.Errorf("%s: state as of %d, %d bytes, duplicate: %t, want an earlier message, once", topic, number, len(data), duplicate)
		return
	}
	j.states[topic] = number
	j.got[topic] = number
	j.left -= int(number)
}

// ends checks that each topic had a state, followed by all later messages.
func (j *joiner) ends() {
	j.t.Helper()
	if len(j.states) != len(topics) || j.left != 0 {
		j.t.Errorf("states of %d topics, %d messages are missing, want %d and none", len(j.states), j.left, len(topics))
	}
	j.t.Logf("states as of %v, messages up to %v", j.states, j.got)
}

// publishSome publishes messages, and waits until they have arrived.
func publishSome(ctx context.Context, pubs map[string]*pubsub.Publisher, msgs []message) error {
	for _, m := range msgs {
		if err := pubs[m.topic].Publish(ctx, m.data); err != nil {
			return err
		}
	}
	for _, p := range pubs {
		if err := p.Drain(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A Python subscriber begins with the state of Go publishers while they publish, with loss in both
// directions. docs/protocol §25.2, §25.6.
func TestStateGoToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	bus := net.open(t, ctx, pubsub.Config{Faults: "loss=0.05"})
	there := subscribe(t, ctx, net, streams())
	pubs := publishers(t, ctx, bus, 1)
	for _, p := range pubs {
		if err := p.Retain(); err != nil {
			t.Fatal(err)
		}
	}
	msgs := net.messages(800)
	join := &joiner{newChecker(t, msgs), make(map[string]uint64)}
	if err := publishSome(ctx, pubs, msgs[:400]); err != nil {
		t.Fatal(err)
	}
	late := subscribeFaulty(t, ctx, net, "loss=0.05,dup=0.02,reorder=0.05", streams(), "--from", "state")
	handle := func(l line) {
		switch l.Type {
		case "state":
			join.state(l.Topic, l.Number, l.Data)
		case "message":
			join.message(l.Topic, l.Number, l.Data)
		case "no state", "gap":
			t.Errorf("Python printed %+v, want no gap and no missing state", l)
		}
	}
	i := 400
	for ; len(join.states) == 0 && i < 700; i++ { // the subscriber joins during this loop
		if err := publishSome(ctx, pubs, msgs[i:i+1]); err != nil {
			t.Fatal(err)
		}
		late.drain(handle)
	}
	for len(join.states) < len(topics) {
		l, ok := late.next()
		if !ok {
			t.Fatal("sub.py has ended")
		}
		handle(l)
	}
	if err := publishSome(ctx, pubs, msgs[i:]); err != nil {
		t.Fatal(err)
	}
	bus.Close()
	sum := late.until(ofType("summary"), handle)
	join.ends()
	t.Logf("counters of Python %v", sum.Counters)
	there.until(ofType("summary"), nil)
}

// The same from Python to Go: pub.py keeps the last message of each topic, and a Go subscription
// begins with it, by names and by patterns. docs/protocol §25.1, §25.3, §25.4, §25.9.
func TestStatePythonToGo(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	t.Run("names", func(t *testing.T) { stateToGo(t, topics) })
	t.Run("patterns", func(t *testing.T) { stateToGo(t, []string{"*", "md.>"}) })
}

func stateToGo(t *testing.T, wanted []string) {
	ctx, net := testContext(t), newNetwork(t)
	live, _ := net.listen(t, ctx)
	sub := subscription(t, live)
	pub := python(t, ctx, "pub.py", net.args("loss=0.05", append([]string{"--json", "--wait", "1", "--retain", "--silence", seconds, "--linger", seconds}, topics...)...)...)
	pub.until(ofType("ready"), nil)
	msgs := net.messages(800)
	check := newChecker(t, msgs)
	pub.write(msgs[:400])
	for check.left > 400 {
		m, err := sub.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		check.message(m.Topic, m.Number, m.Data)
	}
	late, err := net.open(t, ctx, pubsub.Config{Faults: "loss=0.05"}).Subscribe(wanted[0], pubsub.Topics(wanted[1:]...), pubsub.From(pubsub.State))
	if err != nil {
		t.Fatal(err)
	}
	join := &joiner{newChecker(t, msgs), make(map[string]uint64)}
	begun := make(chan struct{})
	go func() {
		pub.write(msgs[400:600])
		<-begun
		pub.write(msgs[600:])
		pub.stdin.Close()
	}()
	goOn := sync.OnceFunc(func() { close(begun) })
	defer goOn()
	for join.left > 0 {
		m, err := late.Next(ctx)
		switch {
		case err != nil:
			t.Fatal(err)
		case m.IsStateEnd():
		case m.IsState():
			join.state(m.Topic, m.Number, m.Data)
		default:
			join.message(m.Topic, m.Number, m.Data)
		}
		if len(join.states) == len(topics) {
			goOn()
		}
	}
	join.ends()
	go func() {
		for {
			if _, err := sub.Next(ctx); err != nil {
				return
			}
		}
	}()
	t.Logf("counters of Python %v", pub.until(ofType("summary"), nil).Counters)
}

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// publisherURL is set in the environment of a test binary that runs as a publisher.
const publisherURL = "FANFARE_INTEROP_PUBLISHER"

func TestMain(m *testing.M) {
	if url := os.Getenv(publisherURL); url != "" {
		if err := publishInput(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(testenv.RunParallel(m))
}

// publishInput publishes the lines of standard input, like pub.py.
func publishInput(url string) error {
	ctx := context.Background()
	fmt.Println(`{"type":"ready"}`)
	bus, err := pubsub.Config{Name: "restarted", Silence: testTimeout, Linger: testTimeout}.Open(ctx, url)
	if err != nil {
		return err
	}
	pubs := map[string]*pubsub.Publisher{}
	for _, name := range topics {
		if pubs[name], err = bus.Publisher(name); err != nil {
			return err
		}
	}
	for _, p := range pubs { // create all first: the time without packets before a kill must be short
		if err := p.WaitSubscribers(ctx, 1); err != nil {
			return err
		}
	}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var m struct {
			Topic string
			Data  []byte
		}
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			return err
		}
		if err := pubs[m.Topic].Publish(ctx, m.Data); err != nil {
			return err
		}
	}
	return bus.Close()
}

func goPublisher(t *testing.T, ctx context.Context, net *network) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), publisherURL+"="+net.url())
	return start(t, ctx, cmd)
}

// A publisher that is killed and restarted with the same name is reported as restarted: its first instance is
// delivered as far as it got, and the second from its beginning. The second instance opens its bus just when the first
// is killed: more than 2 s later the first would be reported as lost (docs/protocol §11.3).
func TestRestartGoToPython(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	sub := subscribe(t, ctx, net, 0)
	first, second := net.messages(200), net.messages(200)
	var others []line
	deliver := func(msgs []message) (epoch uint64) {
		check := newChecker(t, msgs)
		for check.left > 0 {
			l := sub.until(func(l line) bool { return l.Type == "message" || l.Type == "gap" }, func(l line) { others = append(others, l) })
			if epoch == 0 {
				epoch = l.Epoch
			}
			if l.Epoch != epoch {
				t.Fatalf("a message of instance %d between those of %d", l.Epoch, epoch)
			}
			check.line(l)
		}
		return epoch
	}
	old := goPublisher(t, ctx, net)
	old.write(first)
	gone := deliver(first)
	again := goPublisher(t, ctx, net)
	again.until(ofType("ready"), nil)
	old.kill()
	again.write(second)
	if deliver(second) == gone {
		t.Error("both instances have the same epoch")
	}
	again.stdin.Close()
	for restarted, ended := 0, 0; restarted < streams() || ended < streams(); {
		l := line{}
		if len(others) > 0 {
			l, others = others[0], others[1:]
		} else {
			l = sub.until(func(line) bool { return true }, nil)
		}
		switch {
		case l.Event == "restarted" && l.Epoch == gone && l.Name == "restarted":
			restarted++
		case l.Event == "ended" && l.Epoch != gone:
			ended++
		case l.Event != "up":
			t.Fatalf("Python printed %+v, want only publishers that are up, restarted or ended", l)
		}
	}
}

func TestRestartPythonToGo(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx, net := testContext(t), newNetwork(t)
	bus, reported := net.listen(t, ctx)
	sub := subscription(t, bus)
	publisher := func() *process {
		p := python(t, ctx, "pub.py", net.args("loss=0.05", append([]string{"--json", "--wait", "1", "--silence", seconds, "--name", "restarted"}, topics...)...)...)
		p.until(ofType("ready"), nil)
		return p
	}
	deliver := func(msgs []message) (epoch events.ID) {
		check := newChecker(t, msgs)
		for check.left > 0 {
			m, err := sub.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if epoch == 0 {
				epoch = m.Epoch()
			}
			if m.Epoch() != epoch {
				t.Fatalf("a message of instance %d between those of %d", m.Epoch(), epoch)
			}
			check.message(m.Topic, m.Number, m.Data)
		}
		return epoch
	}
	first, second := net.messages(200), net.messages(200)
	old := publisher()
	old.write(first)
	gone := deliver(first)
	again := publisher()
	old.kill()
	again.write(second)
	if deliver(second) == gone {
		t.Error("both instances have the same epoch")
	}
	for range streams() {
		e := reported.wait(ctx, events.PublisherRestarted)
		if e.Epoch != gone || e.Name != "restarted" {
			t.Errorf("%v is reported as restarted, want epoch %d", e, gone)
		}
	}
	again.stdin.Close()
	for range streams() {
		reported.wait(ctx, events.PublisherEnded)
	}
}

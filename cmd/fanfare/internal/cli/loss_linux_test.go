package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// shown makes the processes of this test use a separate directory for their sockets.
func shown(t *testing.T) (dir string) {
	dir, err := os.MkdirTemp("", "fanfare-") // names of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	dir = filepath.Join(dir, "s")
	t.Setenv(inspect.Variable, dir)
	return dir
}

// awaitLoss runs fanfare loss until its output contains all texts.
func awaitLoss(t *testing.T, dir string, texts ...string) result {
	t.Helper()
	var r result
	for ctx := testContext(t); ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		r = runWith(ctx, "", "loss", dir)
		output, all := strings.Join(strings.Fields(r.stdout), " "), true
		for _, text := range texts {
			all = all && strings.Contains(output, text)
		}
		if all {
			return r
		}
	}
	t.Fatalf("loss lacks %q and exits with %d:\n%s%s", texts, r.code, r.stdout, r.stderr)
	return r
}

// A lossy link is reported with what to check, and that nothing was lost permanently.
func TestLossOfALossyLink(t *testing.T) {
	dir := shown(t)
	url := "sim" + strings.TrimPrefix(memURL(t), "mem") + "?loss=0.05"
	open := func(name string) *pubsub.Bus {
		b, err := pubsub.Config{Name: name, Inspect: pubsub.InspectOn, RecoveryDeadline: time.Minute}.Open(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	from, to := open("feed"), open("desk")
	pub, err := from.Publisher("md.a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := to.Handle("md.a", func(pubsub.Message, error) {}); err != nil {
		t.Fatal(err)
	}
	if err := pub.WaitSubscribers(testContext(t), 1); err != nil {
		t.Fatal(err)
	}
	for to.Stats().LostOnWay == 0 {
		if err := pub.Publish(t.Context(), make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	r := awaitLoss(t, dir, "fabric: ", "from feed", "bus desk", "needs a querier", "Nothing was lost permanently in the last hour, in 1 process;", "(2 buses)")
	if r.code != exitOK || strings.Contains(r.stdout, "LOST PERMANENTLY") {
		t.Errorf("loss ended with %+v, want exit code %d and no permanent loss", r, exitOK)
	}
}

// A socket overflow is reported with its fix. The test makes the process sleep.
func TestLossOfAnOverflowedSocket(t *testing.T) {
	testenv.Slow(t)
	dir := shown(t)
	url := loopbackURL(t)
	sub := spawn(t, "sub", "-t", url+"&rcvbuf=64K", "-json", "md.a")
	pub := spawn(t, "pub", "-t", url, "-flow", "none", "-wait", "1", "-rate", "20000", "-repeat", "1000000", "-file", manyLines(t), "md.a")
	awaitLoss(t, dir, "in 2 processes")
	for sub.stdout.String() == "" {
		time.Sleep(time.Millisecond)
	}
	stop := make(chan struct{})
	var naps sync.WaitGroup
	naps.Go(func() {
		for { // 6,000 messages each time, of which the buffer holds some hundred; fewer if the publisher is blocked, too
			sub.stop(t)
			time.Sleep(300 * time.Millisecond)
			sub.cmd.Process.Signal(syscall.SIGCONT)
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Second):
			}
		}
	})
	defer naps.Wait()
	defer close(stop)
	awaitLoss(t, dir, "socket_overflow: ", fmt.Sprintf("fanfare[%d]", sub.cmd.Process.Pid), "sysctl -w net.core.rmem_max=33554432")
	pub.kill()
}

// A stopped subscriber does not answer; its publisher names it and reports that it no longer waits for it.
func TestLossOfAStoppedSubscriber(t *testing.T) {
	testenv.Slow(t)
	dir := shown(t)
	url := loopbackURL(t)
	sub := spawn(t, "sub", "-until", "end", "-t", url, "md.a")
	spawn(t, "pub", "-t", url, "-wait", "1", "-rate", "1000", "-file", manyLines(t), "md.a")
	awaitLoss(t, dir, "in 2 processes")
	for sub.stdout.String() == "" {
		time.Sleep(time.Millisecond)
	}
	sub.stop(t)
	host, _ := os.Hostname()
	peer := fmt.Sprintf("%s/%d at 127.0.0.1", host, sub.cmd.Process.Pid)
	r := awaitLoss(t, dir, "subscriber_silent", "peer "+peer, "still runs: was it killed, stopped, or disconnected", "Not read:", "no answer: it is stopped")
	if r.code != exitIncomplete {
		t.Errorf("exit code %d, want %d", r.code, exitIncomplete)
	}
	sub.cmd.Process.Signal(syscall.SIGCONT)
}

// A killed publisher is named, with the same content in JSON.
func TestLossOfADeadPublisher(t *testing.T) {
	testenv.Slow(t)
	dir := shown(t)
	url := loopbackURL(t)
	b, err := pubsub.Config{Name: "desk"}.Open(t.Context(), url) // a sub would end
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var received atomic.Bool
	if _, err := b.Handle("md.a", func(pubsub.Message, error) { received.Store(true) }); err != nil {
		t.Fatal(err)
	}
	pub := spawn(t, "pub", "-t", url, "-wait", "1", "-name", "feed", "-rate", "1000", "-file", manyLines(t), "md.a")
	awaitLoss(t, dir, "in 2 processes")
	await(t, "a message", received.Load)
	pub.kill()
	awaitLoss(t, dir, "publisher_lost", "from feed at 127.0.0.1", "Find out why feed at 127.0.0.1")
	r := runWith(t.Context(), "", "loss", "-json", dir)
	found := false
	for line := range strings.Lines(r.stdout) {
		var x struct{ Type, Cause, From, Publisher, Do string }
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatalf("loss -json writes %q, which is no JSON object: %v", line, err)
		}
		found = found || x.Type == "event" && x.Cause == "publisher_lost" && strings.HasPrefix(x.From, "feed at") && len(x.Publisher) == 16 && x.Do != ""
	}
	if !found {
		t.Errorf("loss -json lacks the event of the lost publisher feed:\n%s", r.stdout)
	}
}

// A reader that is too slow for its policy loses messages permanently, which has its own exit code.
func TestLossOfASlowReader(t *testing.T) {
	dir := shown(t)
	b, err := pubsub.Config{Loopback: true, Name: "both", Inspect: pubsub.InspectOn}.Open(t.Context(), memURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	pub, err := b.Publisher("md.a")
	if err != nil {
		t.Fatal(err)
	}
	sub, err := b.Subscribe("md.a", pubsub.SlowConsumer(pubsub.SlowLatest))
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.WaitSubscribers(testContext(t), 1); err != nil {
		t.Fatal(err)
	}
	for range 100_000 {
		if err := pub.Publish(t.Context(), make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	for {
		if _, err := sub.Next(testContext(t)); err != nil {
			break // a gap
		}
	}
	r := awaitLoss(t, dir, "LOST PERMANENTLY", "slow_consumer: ", "messages of md.a", "from both", "bus both, subscription md.a", "The reader of md.a in ")
	if r.code != exitLost {
		t.Errorf("exit code %d, want %d", r.code, exitLost)
	}
	if r := runWith(t.Context(), "", "loss", "-q", dir); strings.Contains(r.stdout, "DROPPED") || r.code != exitLost {
		t.Errorf(`loss -q ended with %+v, want exit code %d and no "DROPPED"`, r, exitLost)
	}
}

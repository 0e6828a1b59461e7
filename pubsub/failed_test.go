package pubsub

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every error names this package, the call and its topic, and no internal package.
func TestErrorsNameThisPackage(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{Linger: -1, WindowBytes: 64 << 10}, url), openBus(t, Config{ReceiveWindowBytes: 64 << 10}, url)
	sub := subscribe(t, subBus, "x")
	handled, err := subBus.Handle("y", func(Message, error) {})
	if err != nil {
		t.Fatal(err)
	}
	pub, done := publisher(t, pubBus, "x"), publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	check := func(call string, err error) {
		t.Helper()
		switch {
		case err == nil:
			t.Errorf("%s returned no error, want one", call)
		case !strings.HasPrefix(err.Error(), "pubsub: ") || strings.Count(err.Error(), "pubsub: ") != 1,
			regexp.MustCompile(`\b(reliable|engine|wire|publication|closed network)\b`).MatchString(err.Error()):
			t.Errorf("%s: error %q, want the prefix \"pubsub: \" once and no internal names", call, err)
		}
	}
	checkTopic := func(call string, err error) {
		t.Helper()
		if check(call, err); err != nil && !strings.Contains(err.Error(), ` "x": `) {
			t.Errorf("%s does not name its topic: %v", call, err)
		}
	}
	result := func(_ any, err error) error { return err }
	ended, cancel := context.WithCancelCause(ctx)
	cancel(errors.New("the operator stopped it"))

	check("Open with an ended context", result(Open(ended, url)))
	for _, raw := range []string{"x://", "mem://a/b", "udp://239.20.0.0/16?iface=nothere", "udp://10.0.0.0/8", "roce://nothere", "rdma://nothere", "mem://x?size=7", "%"} {
		check("Open "+raw, result(Open(ctx, raw)))
	}
	for _, c := range []Config{{Faults: "loss=2"}, {Rate: -1}, {MaxPublishers: -1}, {Wait: "x"}, {FlowControl: "x"}, {WindowBytes: 1}, {MaxMessage: -1}, {RepairShare: -1}} {
		check("Config.Open", result(c.Open(ctx, url)))
	}
	check("Publisher", result(pubBus.Publisher("a b")))
	check("Subscribe", result(subBus.Subscribe(">.a")))
	check("Handle", result(subBus.Handle("x", nil)))
	check("Handle with a policy", result(subBus.Handle("x", func(Message, error) {}, SlowConsumer(9))))
	check("Subscribe with a policy", result(subBus.Subscribe("x", SlowConsumer(9))))
	check("NextBatch without room", result(sub.NextBatch(ctx, nil)))
	check("Next of a handler", result(handled.Next(ctx)))
	check("Add", sub.Add(""))
	checkTopic("Publish, too large", pub.Publish(ctx, make([]byte, 17<<20)))

	for pub.TryPublish(make([]byte, 1000)) == nil { // until the unread subscription has no room
	}
	checkTopic("TryPublish", pub.TryPublish(make([]byte, 1000)))
	calls := func(what string, ctx context.Context) {
		t.Helper()
		large := make([]byte, 1<<20)
		checkTopic("Publish"+what, pub.Publish(ctx, large))
		checkTopic("PublishBatch"+what, result(pub.PublishBatch(ctx, [][]byte{large})))
		checkTopic("Flush"+what, pub.Flush(ctx))
		checkTopic("Drain"+what, pub.Drain(ctx))
		checkTopic("WaitSubscribers"+what, pub.WaitSubscribers(ctx, 2))
	}
	calls(" with an ended context", ended)
	checkTopic("Close with an ended context", done.Close(ended))
	checkTopic("Publish on a closed publisher", done.Publish(ctx, nil))
	check("Shutdown", pubBus.Shutdown(ended))
	calls(" on a closed bus", ctx)
	check("Publisher on a closed bus", result(pubBus.Publisher("x")))
	check("Subscribe on a closed bus", result(pubBus.Subscribe("x")))

	sub.Close()
	checkTopic("Next on a closed subscription", result(sub.Next(ctx)))
	checkTopic("NextBatch on a closed subscription", result(sub.NextBatch(ctx, make([]Message, 1))))
	checkTopic("Add on a closed subscription", sub.Add("x"))
	checkTopic("Err of a closed subscription", sub.Err())
}

// No error of an internal package begins with the name of its package, because users of this package would see it.
func TestErrorsBelowNameNoPackage(t *testing.T) {
	prefix := regexp.MustCompile(`(errors\.New|fmt\.Errorf)\("(reliable|engine): `)
	for _, dir := range []string{"../reliable", "../internal/engine"} {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(dir + "/" + f.Name())
			if err != nil || strings.HasSuffix(f.Name(), "_test.go") {
				continue
			}
			if found := prefix.Find(text); found != nil {
				t.Errorf("%s/%s contains the error prefix %s, want none", dir, f.Name(), found)
			}
		}
	}
}

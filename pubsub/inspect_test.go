package pubsub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// inspected puts the process's socket into a directory of the test. The test must not run in parallel, because buses
// of other tests would be seen, too.
func inspected(t *testing.T) (dir string) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no inspection sockets")
	}
	dir = filepath.Join(t.TempDir(), "fanfare")
	t.Setenv(inspect.Variable, dir)
	return dir
}

// snapshot reads snapshots of this process until one is as wanted.
func snapshot(t *testing.T, dir string, want func(*inspect.Snapshot) bool) *inspect.Snapshot {
	t.Helper()
	var last *inspect.Snapshot
	for limit := time.Now().Add(time.Minute); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		all, err := inspect.ReadAll(t.Context(), dir)
		if err != nil || len(all) != 1 || all[0].Err != nil {
			t.Fatalf("snapshots %+v, error %v, want one without an error", all, err)
		}
		if last = all[0].Snapshot; want(last) {
			return last
		}
	}
	t.Fatalf("no snapshot is as wanted, the last one: %+v", last)
	return nil
}

// A snapshot shows the configuration and the statistics of the buses of a process.
func TestInspect(t *testing.T) {
	dir := inspected(t)
	ctx := testContext(t)
	url := udpURL(t)
	pub := openBus(t, Config{Name: "prices", Faults: "loss=0.1,seed=1"}, url)
	sub := openBus(t, Config{Name: "book", Tag: "b", Faults: "loss=0.2,seed=2"}, url)
	s := subscribe(t, sub, "md.b", Topics("md.>"), SlowConsumer(SlowLatest))
	handled := make(chan struct{}, 2000)
	if _, err := sub.Handle("md.a", func(_ Message, err error) {
		if err == nil {
			handled <- struct{}{}
		}
	}); err != nil {
		t.Fatal(err)
	}
	a, b := publisher(t, pub, "md.a"), publisher(t, pub, "md.b")
	wait(t, ctx, a, 1)
	for range 1000 {
		publish(t, ctx, a, strings.Repeat("x", 700))
	}
	publish(t, ctx, b, "y")
	if err := b.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		<-handled
	}
	sub.Losses() // counts what was dropped
	snap := snapshot(t, dir, func(s *inspect.Snapshot) bool {
		return len(s.Buses) == 2 && s.Buses[0].Incomplete == "" && s.Buses[1].Incomplete == "" && len(s.Buses[0].Publications) > 0 && len(s.Buses[0].Publications[0].Subscribers) > 0 && len(s.Buses[1].Subscriptions) == 2 &&
			len(s.Buses[0].Topics) == 2 && s.Buses[0].Topics[0].Messages == 1000 && s.Buses[1].Repair.Count > 0
	})
	p, q := &snap.Buses[0], &snap.Buses[1]
	if p.ID != pub.ID().String() || p.Name != "prices" || fmt.Sprint(p.URLs) != "["+url+"]" || q.Name != "book" || q.Tag != "b" || p.Since.IsZero() || p.Incomplete != "" {
		t.Errorf("identities %+v and %+v, want prices and book with tag b", p.Identity, q.Identity)
	}
	if x := p.Topics[0]; x.Name != "md.a" || x.Group == "" || x.Subscribers != 1 {
		t.Errorf("topics %+v, want md.a with a group and 1 subscriber", p.Topics)
	}
	if p.Fabric.Transport == "" || p.Fabric.Groups != 16 || runtime.GOOS == "linux" && (len(p.Fabric.Buffers) != 1 || p.Fabric.Buffers[0].ReceiveGranted == 0 || snap.Host.ReceiveBufferMax == 0) {
		t.Errorf("fabric %+v, host %+v", p.Fabric, snap.Host)
	}
	var sent, received uint64
	for _, x := range p.Publications {
		sent += x.Counters["messages_sent"]
		for _, m := range x.Subscribers {
			if m.Name != "book" || m.Tag != "b" {
				t.Errorf("subscriber %+v, want book with tag b", m)
			}
		}
	}
	for _, g := range q.Groups {
		for _, st := range g.Streams {
			if st.Name != "prices" || st.Publisher != p.ID {
				t.Errorf("stream %+v, want one of publisher prices, %s", st, p.ID)
			}
			received += st.Packets
		}
	}
	if sent != 1001 || received == 0 || q.Repair.P50 <= 0 || q.Counters["packets_received"] == 0 {
		t.Errorf("%d messages sent, %d packets received, repair %+v, want 1001 messages, and some packets and repairs", sent, received, q.Repair)
	}
	if !slices.ContainsFunc(p.Events, func(e inspect.Event) bool { return e.Kind == "subscriber_up" && len(e.Subscriber) == 16 }) {
		t.Errorf("events %+v, want a subscriber_up with the id of the subscriber", p.Events)
	}
	if i := slices.IndexFunc(q.Causes, func(c stats.CauseCount) bool { return c.Cause == "injected" }); i < 0 || q.Causes[i].Dropped == 0 {
		t.Errorf("causes %+v, want dropped packets of cause injected", q.Causes)
	}
	x, y := q.Subscriptions[0], q.Subscriptions[1]
	if fmt.Sprint(x.Topics) != "[md.> md.b]" || x.Handler || x.Policy != "latest" || x.Number != 1 || x.Pending == 0 || len(x.Publishers) == 0 || x.Publishers[0].Name != "prices" {
		t.Errorf("subscription %+v, want number 1: md.> and md.b, policy latest, a handler, messages pending, publisher prices", x)
	}
	if fmt.Sprint(y.Topics) != "[md.a]" || !y.Handler || y.Policy != "auto" || y.Messages != 1000 || y.From != "live" {
		t.Errorf("subscription with a handler %+v, want topic md.a, policy auto, 1000 messages, from live", y)
	}
	if !slices.ContainsFunc(q.Events, func(e inspect.Event) bool { return e.Kind == "packets_dropped" && e.Cause == "injected" }) {
		t.Errorf("no packets were dropped: %+v", q.Events)
	}
	isUp := func(e inspect.Event) bool {
		return e.Kind == "publisher_up" && e.Name == "prices" && e.Epoch == p.Epoch
	}
	if !slices.ContainsFunc(q.Events, isUp) || q.EventCounts["publisher_up"] == 0 {
		t.Errorf("events %+v, counts %v", q.Events, q.EventCounts)
	}
	s.Close()
	sub.Close()
	snapshot(t, dir, func(s *inspect.Snapshot) bool { return len(s.Buses) == 1 && s.Buses[0].Name == "prices" })
	pub.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files after the last bus: %v, error %v, want none", left, err)
	}
}

// Snapshots of both sides name a slow subscriber, how far it is behind and for how long, also while a handler keeps
// the bus from answering.
func TestInspectSlow(t *testing.T) {
	dir := inspected(t)
	ctx := testContext(t)
	url := udpURL(t)
	pub := openBus(t, Config{WindowBytes: 64 << 10}, url)
	sub := openBus(t, Config{Name: "sleepy", ReceiveWindowBytes: 64 << 10}, url)
	s := subscribe(t, sub, "md")
	p := publisher(t, pub, "md")
	wait(t, ctx, p, 1)
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	published := make(chan error)
	go func() {
		for {
			if err := p.Publish(stop, make([]byte, 1000)); err != nil {
				published <- err
				return
			}
		}
	}()
	snap := snapshot(t, dir, func(s *inspect.Snapshot) bool {
		if len(s.Buses) != 2 || len(s.Buses[0].Publications) != 1 || len(s.Buses[0].Publications[0].Subscribers) != 1 || len(s.Buses[1].Subscriptions) != 1 {
			return false
		}
		feeds := s.Buses[1].Subscriptions[0].Publishers
		return s.Buses[0].Publications[0].Subscribers[0].HeldFor > 0.1 && len(feeds) == 1 && feeds[0].Unread > 0.1
	})
	if m := snap.Buses[0].Publications[0].Subscribers[0]; m.Name != "sleepy" || !m.Holds || m.Behind == 0 || snap.Buses[0].Publications[0].Blocked == "" {
		t.Errorf("publication %+v, want it blocked by sleepy, which is behind", snap.Buses[0].Publications[0])
	}
	if f := snap.Buses[1].Subscriptions[0].Publishers[0]; f.Publisher != pub.ID().String() || f.Lag == 0 || !f.Blocking {
		t.Errorf("subscription's publisher %+v, want one that is blocked, with a lag", f)
	}
	cancel()
	if err := <-published; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.Close()

	release := make(chan struct{})
	inside := make(chan struct{}, 1)
	if _, err := sub.Handle("md", func(Message, error) {
		select {
		case inside <- struct{}{}:
		default:
		}
		<-release
	}); err != nil {
		t.Fatal(err)
	}
	defer close(release)
	for len(inside) == 0 {
		p.TryPublish([]byte("x"))
		time.Sleep(time.Millisecond)
	}
	snapshot(t, dir, func(s *inspect.Snapshot) bool {
		b := &s.Buses[1]
		return strings.Contains(b.Incomplete, "a handler that does not return") && len(b.Subscriptions) == 1 && b.Subscriptions[0].Topics[0] == "md" && len(b.Events) > 0 && s.Buses[0].Incomplete == ""
	})
}

// Config.Inspect and the fabric decide whether a bus is shown; one within the process is shown with InspectOn only.
func TestInspectConfig(t *testing.T) {
	dir := inspected(t)
	for _, c := range []struct {
		inspect Inspect
		url     string
		want    bool
	}{
		{"", udpURL(t), true}, {InspectOn, udpURL(t), true}, {InspectOff, udpURL(t), false},
		{"", memURL(t), false}, {InspectOn, memURL(t), true}, {InspectOff, memURL(t), false}, {InspectAuto, simURL(t), false},
	} {
		b := openBus(t, Config{Inspect: c.inspect}, c.url)
		files, _ := filepath.Glob(filepath.Join(dir, "*.sock"))
		if shown := len(files) == 1; shown != c.want || len(files) > 1 {
			t.Errorf("Inspect %q of %s: sockets %q, want one: %v", c.inspect, c.url, files, c.want)
		}
		b.Close()
		if files, _ := filepath.Glob(filepath.Join(dir, "*.sock")); len(files) != 0 {
			t.Errorf("sockets after Close: %q, want none", files)
		}
	}
	t.Setenv(inspect.Variable, inspect.Off)
	var out strings.Builder
	b := openBus(t, Config{Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}, udpURL(t))
	defer b.Close()
	if s := out.String(); strings.Count(s, "it has no socket") != 1 {
		t.Errorf("log %q, want \"it has no socket\" once", s)
	}
}

// BenchmarkInspect measures a snapshot of a bus with 16 groups. The bus's goroutine is interrupted for a part of that
// time.
func BenchmarkInspect(b *testing.B) {
	bus := openBus(b, Config{Loopback: true}, memURL(b))
	subscribe(b, bus, ">")
	for i := range 200 {
		publish(b, context.Background(), publisher(b, bus, fmt.Sprint("topic.", i)), "x")
	}
	v := view{bus}
	for b.Loop() {
		if x := v.Inspect(context.Background()); x.Incomplete != "" || len(x.Groups) != 16 {
			b.Fatalf("snapshot of %d groups, incomplete %q, want 16 groups and a complete one", len(x.Groups), x.Incomplete)
		}
	}
}

// A snapshot shows how long ago a publisher was lost, for readers and for handlers.
func TestInspectLostPublisher(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	ctx := testContext(t)
	name := t.Name()
	bus := openBus(t, Config{}, "mem://"+name)
	sub := subscribe(t, bus, "x", PublisherEvents())
	if _, err := bus.Handle("x", func(Message, error) {}); err != nil {
		t.Fatal(err)
	}
	dying := killable(t, ctx, name, sub)
	says := func(lost bool) {
		t.Helper()
		b := view{bus}.Inspect(ctx)
		if len(b.Subscriptions) != 2 || len(b.Groups) != 1 || len(b.Groups[0].Streams) != 1 {
			t.Fatalf("%d subscriptions, groups %+v, want 2, and one group with one stream", len(b.Subscriptions), b.Groups)
		}
		if x := b.Groups[0].Streams[0].LostFor; (x > 0) != lost || x > 60 {
			t.Errorf("the stream is lost for %v s, want it lost: %v", x, lost)
		}
		for _, s := range b.Subscriptions {
			if len(s.Publishers) != 1 || (s.Publishers[0].LostFor > 0) != lost {
				t.Errorf("subscription %d: %+v, want it lost: %v", s.Number, s.Publishers, lost)
			}
		}
	}
	says(false)
	dying.Close()
	event(t, ctx, sub, events.PublisherLost)
	says(true)
}

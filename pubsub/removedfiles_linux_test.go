package pubsub

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport/shm"
)

// removableURL returns the URL of a fabric in shared memory, and a function that removes its files.
func removableURL(t *testing.T) (url string, remove func()) {
	t.Helper()
	dir, err := os.MkdirTemp(shm.DefaultDir, "fanfare-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return "shm://removed?dir=" + dir, func() {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("files %q, error %v, want at least one", files, err)
		}
		for _, f := range files {
			if err := os.RemoveAll(f); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// If the files of a fabric are removed while buses use them, each bus reports it once, with the remedy; connected
// buses continue, and new ones do not discover them. docs/protocol §28.10.
func TestFilesAreRemoved(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	for _, c := range []struct {
		name string
		keys bool
	}{{"bare", false}, {"sealed", true}} {
		t.Run(c.name, func(t *testing.T) {
			ctx := testContext(t)
			url, remove := removableURL(t)
			if c.keys {
				url = withKeys(url, keyFile(t, newKey(t)))
			}
			subEvents, pubEvents, log := &eventLog{}, &eventLog{}, &logLines{}
			pubBus := openBus(t, Config{OnEvent: pubEvents.event}, url)
			subBus := openBus(t, Config{OnEvent: subEvents.event, Logger: slog.New(slog.NewTextHandler(log, nil))}, url)
			p, s := publisher(t, pubBus, "a.b"), subscribe(t, subBus, "a.b")
			wait(t, ctx, p, 1)
			publish(t, ctx, p, "before")
			want(t, ctx, s, "before")
			remove()
			for _, h := range []*eventLog{subEvents, pubEvents} {
				if e := h.await(t, ctx, events.Unfindable); !strings.Contains(e.Err.Error(), "was removed") || !strings.Contains(e.String(), "restart it") {
					t.Errorf("event %v, want that files were removed, and the advice to restart", e)
				}
			}
			newPub, newSub := openBus(t, Config{}, url), openBus(t, Config{}, url)
			q, r := publisher(t, newPub, "a.b"), subscribe(t, newSub, "a.b")
			wait(t, ctx, q, 1)
			for range 10 {
				publish(t, ctx, p, "old")
				publish(t, ctx, q, "new")
				want(t, ctx, s, "old")
				want(t, ctx, r, "new")
			}
			for _, e := range subEvents.of(events.PublisherUp) {
				if e.Publisher == newPub.ID() {
					t.Errorf("a new bus was discovered: %v", e)
				}
			}
			for _, h := range []*eventLog{subEvents, pubEvents} {
				if all := h.of(events.Unfindable); len(all) != 1 {
					t.Errorf("%d events, want 1: %v", len(all), all)
				}
			}
			if n := strings.Count(log.String(), "can no longer discover this bus"); n != 1 {
				t.Errorf("the log has %d lines that this bus cannot be discovered, want 1", n)
			}
		})
	}
}

// If the fabric is one of two legs, LegDown is reported without LegBack, and new buses are received over the other
// leg. docs/protocol §28.10.
func TestFilesOfALegAreRemoved(t *testing.T) {
	testenv.Slow(t)
	ctx := testContext(t)
	memory, remove := removableURL(t)
	wire := udpURL(t) + "&groups=16"
	subEvents := &eventLog{}
	pubBus, subBus := openLegs(t, Config{}, wire, memory), openLegs(t, Config{OnEvent: subEvents.event}, wire, memory)
	p, s := publisher(t, pubBus, "a.b"), subscribe(t, subBus, "a.b")
	wait(t, ctx, p, 1)
	publish(t, ctx, p, "before")
	want(t, ctx, s, "before")
	remove()
	e := subEvents.await(t, ctx, events.LegDown)
	if e.Leg != memory || e.Publisher != 0 || e.Err == nil || !strings.Contains(e.Err.Error(), "was removed") {
		t.Errorf("event %+v, want leg %v, no publisher, and that files were removed", e, memory)
	}
	q := publisher(t, openLegs(t, Config{}, wire, memory), "a.b")
	wait(t, ctx, q, 1)
	for range 10 {
		publish(t, ctx, p, "old")
		want(t, ctx, s, "old")
		publish(t, ctx, q, "new")
		want(t, ctx, s, "new")
	}
	for kind, n := range map[events.Kind]int{events.LegDown: 1, events.LegBack: 0, events.Unfindable: 0} {
		if all := subEvents.of(kind); len(all) > n || kind == events.LegDown && len(all) == 0 {
			t.Errorf("event %q %d times, want at most %d: %v", kind, len(all), n, all)
		}
	}
	for _, l := range subBus.Stats().Legs {
		if l.Up != (l.URL != memory) {
			t.Errorf("leg %s is up: %v, want %v", l.URL, l.Up, l.URL != memory)
		}
	}
}

package web

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/inspect"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// load is a bus of this process that publishes and receives its own messages, and whose process can be inspected.
type load struct {
	dir string
	bus *pubsub.Bus
	pub *pubsub.Publisher

	requests atomic.Int64 // begun: the number of the frame that each makes
	without  atomic.Int64 // requests in which the bus was too busy to answer
}

func startLoad(t *testing.T) *load {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there are no sockets to look at there")
	}
	dir, err := os.MkdirTemp("", "fanfare-") // names of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	dir = filepath.Join(dir, "s")
	t.Setenv(inspect.Variable, dir)
	c := pubsub.Config{Name: "feed", Loopback: true, Inspect: pubsub.InspectOn, Faults: "loss=0.05,seed=1", RecoveryDeadline: time.Minute}
	b, err := c.Open(t.Context(), "mem://"+t.Name())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	p, err := b.Publisher("md.a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Handle("md.a", func(pubsub.Message, error) {}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // publish continuously
		defer close(done)
		for p.Publish(ctx, make([]byte, 1000)) == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return &load{dir: dir, bus: b, pub: p}
}

func (l *load) read(ctx context.Context) ([]inspect.Seen, error) {
	l.requests.Add(1)
	seen, err := inspect.ReadAll(ctx, l.dir)
	if err != nil || len(seen) != 1 || seen[0].Err != nil || slices.ContainsFunc(seen[0].Snapshot.Buses, func(b inspect.Bus) bool { return b.Incomplete != "" }) {
		l.without.Add(1)
	}
	return seen, err
}

// lose makes a subscription lose messages permanently, like a slow reader.
func (l *load) lose(t *testing.T) {
	t.Helper()
	sub, err := l.bus.Subscribe("md.a", pubsub.SlowConsumer(pubsub.SlowLatest), pubsub.MaxBehind(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sub.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if _, err := sub.Next(ctx); ctx.Err() != nil {
			t.Fatal(err)
		} else if err != nil {
			return // the gap
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func serve(t *testing.T, addr string, read Read) *Server {
	t.Helper()
	s, err := Serve(addr, false, read)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The page shows what happens: rates change, a loss appears at most two frames, which is two
// seconds, later, and the server's end and restart are shown.
func TestInBrowser(t *testing.T) {
	testenv.Slow(t)
	b := startBrowser(t)
	l := startLoad(t)
	s := serve(t, "localhost:0", l.read)
	b.open("http://"+s.Addr()+"/", 1280, 900, false)
	b.await(`document.querySelectorAll("canvas").length === 5 && document.getElementById("live").textContent === "live"`)
	tile := func(i int) string {
		return fmt.Sprintf(`document.querySelectorAll(".tile b")[%d]?.textContent`, i)
	}
	moved := `(() => { const now = [` + tile(0) + `, ` + tile(1) + `]; window.seenRates ||= new Set(); if (now[0] && now[0] !== "0" && now[1] !== "0") window.seenRates.add(now.join()); return window.seenRates.size >= 3; })()`
	b.await(moved)
	b.await(`document.getElementById("findings")?.textContent.includes("injected")`)
	b.await(`document.querySelectorAll("#map path.missing, #map path.flows").length >= 2 && document.getElementById("map").textContent.includes("feed")`)
	b.await(`document.getElementById("verdict").className === "banner good"`) // before anything is lost
	b.eval(`new MutationObserver(() => {
		if (document.getElementById("verdict").className === "banner bad") window.seenBad ||= +document.body.dataset.sequence;
	}).observe(document.getElementById("verdict"), {attributes: true})`)

	l.lose(t)
	lost, at, without := time.Now(), l.requests.Load(), l.without.Load()
	b.await(`window.seenBad > 0 && document.getElementById("findings").textContent.includes("slow_consumer")`)
	t.Logf("a loss was on the page after %v", time.Since(lost))
	if n := time.Duration(int64(b.eval(`window.seenBad`).(float64)) - at - (l.without.Load() - without)); n*Interval > 2*time.Second {
		t.Errorf("a loss was on the page %d frames later, of which one is made each %v", n, Interval)
	}

	addr := s.Addr()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	b.await(`!document.getElementById("gone").hidden && document.getElementById("gone").textContent.includes("has ended")`)
	s = serve(t, addr, l.read)
	b.await(`document.getElementById("gone").textContent.includes("was started again") && document.getElementById("live").textContent === "live"`)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if c := b.complaints(); c != "" {
		t.Errorf("the page's script reports an error: %s", c)
	}
}

// The page fits a phone, and has other colours in dark mode.
func TestInBrowserOnPhones(t *testing.T) {
	testenv.Slow(t)
	b := startBrowser(t)
	l := startLoad(t)
	s := serve(t, "localhost:0", l.read)
	defer s.Close()
	colours := make(map[any]bool)
	for _, dark := range []bool{false, true} {
		for _, wide := range []int{360, 1280} {
			l.lose(t) // one subscription is now slow
			b.open("http://"+s.Addr()+"/", wide, 800, dark)
			b.await(`document.querySelectorAll("canvas").length === 5 && document.querySelectorAll("#map rect").length >= 3 && document.querySelector("#slow table") !== null`)
			if n := b.eval(`document.documentElement.scrollWidth`); n != float64(wide) {
				t.Errorf("%d pixels wide, dark %v: the page is %v wide, want %d", wide, dark, n, wide)
			}
			if wide == 360 {
				b.eval(`window.boxes = [...document.querySelectorAll("table")].filter((t) => !t.closest(".uplot")).map((t) => t.parentElement);
					boxes.forEach((b) => b.scrollLeft = 40); window.seenAt = +document.body.dataset.sequence;`)
				b.await(`+document.body.dataset.sequence > window.seenAt + 1`) // tables are made anew with each frame
				if v := b.eval(`boxes.map((b) => b.id + " " + b.scrollLeft).join()`); v != "slow 40,processes 40" {
					t.Errorf("%d pixels wide: tables were scrolled by 40 and are at %v", wide, v)
				}
			}
			colours[b.eval(`getComputedStyle(document.body).backgroundColor`)] = true
		}
	}
	if len(colours) != 2 {
		t.Errorf("colours of the page: %v, want 2", colours)
	}
}

// hostile is a text that would run a script if the page used it as HTML.
const hostile = `<img src=x onerror="window.hacked=1"><script>window.hacked=2</script>"'&amp;${window.hacked=3}`

func hostileSnapshot(now time.Time) []inspect.Seen {
	return []inspect.Seen{{Socket: "s", Snapshot: &inspect.Snapshot{
		Version: inspect.Version, Time: now, Process: inspect.Process{PID: 1, Program: hostile, Host: hostile},
		Buses: []inspect.Bus{{
			Identity: inspect.Identity{ID: "1", Name: hostile, URLs: []string{hostile}}, Ended: hostile,
			Groups:        []inspect.Group{{Address: hostile, Topics: 1, Joined: true, Streams: []inspect.Stream{{Publisher: hostile, Name: hostile}}}},
			Publications:  []inspect.Publication{{Address: hostile, Subscribers: []inspect.Subscriber{{ID: hostile, Name: hostile, Address: hostile, Released: true}}}},
			Subscriptions: []inspect.Subscription{{Topics: []string{hostile}, Publishers: []inspect.SubscriptionFeed{{Name: hostile, Lag: 1 << 20}}}},
			Events:        []inspect.Event{{Sequence: 1, Time: now, Kind: hostile, Text: hostile}},
			Losses: &inspect.LossRecord{From: now, To: now, Losses: []inspect.Loss{{
				First: now, Last: now, Cause: "gone", Topic: hostile, Subscription: hostile, PublisherName: hostile, Publisher: "1", Address: hostile, Times: 1, Messages: 1,
			}}},
		}},
	}}}
}

// The page shows names from the network as text, whatever they contain.
func TestInBrowserHostileNames(t *testing.T) {
	testenv.Slow(t)
	b := startBrowser(t)
	s := serve(t, "localhost:0", func(context.Context) ([]inspect.Seen, error) { return hostileSnapshot(time.Now()), nil })
	defer s.Close()
	b.open("http://"+s.Addr()+"/", 1280, 900, false)
	b.await(`["findings", "slow", "processes", "events"].every((id) => document.getElementById(id)?.textContent.includes("<img src=x")) && document.querySelectorAll("#map rect").length >= 3`)
	if v := b.eval(`window.hacked === undefined && document.querySelectorAll("img").length === 0`); v != true {
		t.Errorf("hostile names were obeyed: %v", b.eval(`window.hacked`))
	}
	if c := b.complaints(); c != "" {
		t.Errorf("the page's script reports an error: %s", c)
	}
}

// No script of the page creates HTML from texts. This test needs no browser.
func TestScriptsMakeText(t *testing.T) {
	for _, name := range []string{"app.js", "map.js", "page.html"} {
		text, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, not := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", " onclick=", " style="} {
			if strings.Contains(string(text), not) {
				t.Errorf("%s contains %q, which the page must not use", name, not)
			}
		}
	}
}

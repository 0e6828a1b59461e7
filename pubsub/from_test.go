package pubsub

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
)

// readNumbers reads consecutive messages up to number last. It returns the number of the first one and the gaps
// delivered before it.
func readNumbers(t *testing.T, ctx context.Context, s *Subscription, last uint64) (first uint64, gaps []*GapError) {
	t.Helper()
	next, begun := uint64(0), false
	for {
		m, err := s.Next(ctx)
		var gap *GapError
		switch {
		case errors.As(err, &gap):
			gaps = append(gaps, gap)
			if begun {
				t.Fatalf("after message %d: %v", next-1, err)
			}
			continue
		case err != nil:
			t.Fatalf("after message %d: %v", next, err)
		case !begun:
			begun, first, next = true, m.Number, m.Number
		}
		if m.Number != next || string(m.Data) != fmt.Sprint("message ", next) {
			t.Fatalf("message %d %q, want number %d", m.Number, m.Data, next)
		}
		if next++; m.Number == last {
			return first, gaps
		}
	}
}

// docs/protocol §4.6, §9.8.
func TestFrom(t *testing.T) {
	ctx := testContext(t)
	const before, after = 800, 100
	starts := func(s Start) func(*Bus) Start { return func(*Bus) Start { return s } }
	at := func(n uint64) func(*Bus) Start { return func(b *Bus) Start { return positionOf(b, "x", n) } }
	for _, c := range []struct {
		name   string
		start  func(*Bus) Start
		window int // WindowBytes of the publisher
		first  uint64
		gap    bool // want a gap before the first message
		exact  bool
	}{
		{"live", starts(Live), 0, before, false, true},
		{"window", starts(Window), 0, 0, false, true},
		{"position", at(234), 0, 234, false, true},
		{"position that is still to come", at(before + 50), 0, before + 50, false, true},
		{"window that does not hold all", starts(Window), 64 << 10, 1, false, false},
		{"position that it does not hold", at(100), 64 << 10, 101, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := memURL(t)
			bus := openBus(t, Config{WindowBytes: c.window}, url)
			pub := publisher(t, bus, "x")
			n := 0
			put := func(to int) {
				for ; n < to; n++ {
					publish(t, ctx, pub, fmt.Sprint("message ", n))
					if n < before/2 { // one packet each: otherwise all may fit into a small window
						if err := pub.Flush(ctx); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			put(before)
			if err := pub.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			there := openBus(t, Config{}, url)
			s := subscribe(t, there, "x", From(c.start(bus)))
			wait(t, ctx, pub, 1)
			if c.window > 0 {
				waitJoined(t, ctx, pub) // messages soon leave a small window
			}
			put(before + after)
			first, gaps := readNumbers(t, ctx, s, before+after-1)
			if c.exact && first != c.first || first < c.first || first > max(before, c.first) {
				t.Errorf("begins with message %d, want %d", first, c.first)
			}
			if c.gap != (len(gaps) == 1) {
				t.Fatalf("gaps %v, want one: %v", gaps, c.gap)
			}
			if c.gap && (gaps[0].First != 100 || gaps[0].First+gaps[0].Count != first || gaps[0].Cause != events.CauseGone || gaps[0].Topic != "x") {
				t.Errorf("gap %+v before message %d, want it to begin at 100 and to end there", gaps[0], first)
			}
		})
	}
}

// A subscription with From(Window) on a bus with other subscriptions is a separate receiver: neither its beginning
// nor its end affects them.
func TestFromIsASeparateReceiver(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	bus := openBus(t, Config{}, url)
	pub := publisher(t, bus, "x")
	var mu sync.Mutex
	var kinds []events.Kind
	there := openBus(t, Config{OnEvent: func(e events.Event) {
		mu.Lock()
		defer mu.Unlock()
		kinds = append(kinds, e.Kind)
	}}, url)
	live := subscribe(t, there, "x")
	wait(t, ctx, pub, 1)
	n := 0
	put := func(to int) {
		for ; n < to; n++ {
			publish(t, ctx, pub, fmt.Sprint("message ", n))
		}
		if err := pub.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	put(500)
	readNumbers(t, ctx, live, 499)
	window := subscribe(t, there, "x", From(Window))
	var got []uint64
	done := make(chan struct{})
	handled, err := there.Handle("x", func(m Message, err error) {
		if err != nil {
			t.Error(err)
		}
		if got = append(got, m.Number); m.Number == 999 {
			close(done)
		}
	}, From(positionOf(bus, "x", 200)))
	if err != nil {
		t.Fatal(err)
	}
	wait(t, ctx, pub, 3)
	put(1000)
	if first, _ := readNumbers(t, ctx, live, 999); first != 500 {
		t.Errorf("the live subscription continues with message %d, want 500", first)
	}
	if first, _ := readNumbers(t, ctx, window, 999); first != 0 {
		t.Errorf("the window begins with message %d, want 0", first)
	}
	<-done
	for i, number := range got {
		if number != uint64(200+i) {
			t.Fatalf("the handler got message %d, want %d", number, 200+i)
		}
	}
	st := there.Stats().Groups
	if len(st) != 1 || st[0].History == 0 {
		t.Errorf("groups %+v, want one with a history", st)
	}
	if window.Close() != nil || handled.Close() != nil {
		t.Error("not closed")
	}
	for bus.Stats().Publications[0].Receivers != 1 {
		time.Sleep(time.Millisecond)
	}
	if after := there.Stats().Groups; len(after) != 1 || after[0].History < st[0].History || !after[0].Joined {
		t.Errorf("groups %+v, want one that is joined and keeps its history of %d", after, st[0].History)
	}
	for range 10 { // until the publisher no longer counts it
		put(n + 200)
		readNumbers(t, ctx, live, uint64(n-1))
	}
	if st := bus.Stats().Publications[0]; st.Receivers != 1 || st.ReceiversSilent != 0 {
		t.Errorf("%d receivers left, %d were silent, want 1 and none", st.Receivers, st.ReceiversSilent)
	}
	mu.Lock()
	defer mu.Unlock()
	ups := 0
	for _, kind := range kinds {
		if kind == events.PublisherUp {
			ups++
		}
	}
	if ups != 1 {
		t.Errorf("events %v: a publisher comes up once on a bus", kinds)
	}
}

// When the last subscription of a group is closed the bus leaves the group, and can join it again.
func TestFromCanBeRepeated(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		bus := openBus(t, Config{}, url)
		pub := publisher(t, bus, "x")
		there := openBus(t, Config{}, url)
		for n := range 6 {
			publish(t, ctx, pub, fmt.Sprint("message ", n))
			s := subscribe(t, there, "x", From(Window))
			if first, gaps := readNumbers(t, ctx, s, uint64(n)); first != 0 || gaps != nil {
				t.Fatalf("%s: begins with %d, gaps %v, want 0 and none", url, first, gaps)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if n%2 == 0 { // sometimes the next one begins before the last has ended
				for there.Stats().Groups[0].Joined {
					time.Sleep(time.Millisecond)
				}
			}
		}
	})
}

// 50 subscriptions join a running feed over sockets, with 1 % loss: each receives it in order and once, from the
// beginning of the window.
func TestFiftyJoinsUnderLoss(t *testing.T) {
	testenv.Slow(t)
	if testing.Short() {
		t.Skip("50 joins over sockets at 1 % loss: skipped with -short")
	}
	ctx := testContext(t)
	url := udpURL(t)
	bus := openBus(t, Config{Faults: "loss=0.01,seed=7"}, url)
	pub := publisher(t, bus, "x")
	stop, stopped := make(chan struct{}), make(chan struct{})
	var last int
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			if err := pub.Publish(ctx, fmt.Append(nil, "message ", n)); err != nil {
				t.Error(err)
				return
			}
			if last = n; n%20 == 0 {
				time.Sleep(time.Millisecond)
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	var subs []*Subscription
	for range 10 {
		there := openBus(t, Config{Faults: "loss=0.01,seed=7"}, url)
		for i := range 5 {
			start := Start(Window)
			if i%2 == 1 {
				start = positionOf(bus, "x", 5)
			}
			subs = append(subs, subscribe(t, there, "x", From(start)))
			time.Sleep(10 * time.Millisecond)
		}
	}
	close(stop)
	<-stopped
	if err := pub.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for i, s := range subs {
		first, gaps := readNumbers(t, ctx, s, uint64(last))
		if len(gaps) > 1 || first > 5 && i%5%2 == 1 && (len(gaps) != 1 || gaps[0].First != 5 || gaps[0].Count != first-5) {
			t.Errorf("subscription %d begins with message %d of %d, gaps %v", i, first, last, gaps)
		}
		if first > 5 {
			t.Logf("subscription %d begins with message %d", i, first)
		}
		s.Close()
	}
}

// positionOf returns Positions with one position: message n of a bus's topic.
func positionOf(b *Bus, topic string, n uint64) *Positions {
	p := new(Positions)
	p.set(runTopic{b.loop.Instance(), topic}, position{next: n})
	return p
}

// A number is not a Start, so that From(500) does not compile.
func TestStartIsNotANumber(t *testing.T) {
	for _, kind := range []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[string]()} {
		if kind.Implements(reflect.TypeFor[Start]()) {
			t.Errorf("a Start can be written as a constant: %v", kind)
		}
	}
	b := openBus(t, Config{}, memURL(t))
	for _, start := range []Start{nil, (*Positions)(nil)} {
		if _, err := b.Subscribe("x", From(start)); err == nil || !strings.Contains(err.Error(), "From needs") {
			t.Errorf("From(%#v): error %v, want one containing \"From needs\"", start, err)
		}
	}
}

func TestParseStart(t *testing.T) {
	for text, want := range map[string]Start{"live": Live, "window": Window, "state": State} {
		got, err := ParseStart(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("ParseStart(%q) = %v, error %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "old", "17", "Window"} {
		if got, err := ParseStart(text); err == nil {
			t.Errorf("ParseStart(%q) = %v, want an error", text, got)
		}
	}
}

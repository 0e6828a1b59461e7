package pubsub

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// A pattern delivers existing and new matching topics, each from the first message after the subscription, to readers
// and handlers, and nothing else.
func TestWildcard(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		old := publisher(t, pubBus, "md.xnas.AAPL")
		publish(t, ctx, old, "before")
		if err := old.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		sub := subscribe(t, subBus, "md.*.AAPL", Topics("md.>"))
		var mu sync.Mutex
		var handled []string
		if _, err := subBus.Handle("md.xnas.*", func(m Message, err error) {
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			handled = append(handled, fmt.Sprintf("%s %d %s", m.Topic, m.Number, m.Data))
			mu.Unlock()
		}); err != nil {
			t.Fatal(err)
		}
		wait(t, ctx, old, 1)
		publish(t, ctx, old, "one")
		publish(t, ctx, publisher(t, pubBus, "md"), "not ours")
		fresh := publisher(t, pubBus, "md.xnas.MSFT")
		publish(t, ctx, fresh, "two")
		deep := publisher(t, pubBus, "md.a.b.c")
		wait(t, ctx, deep, 1)
		publish(t, ctx, deep, "three")
		got := map[string]bool{}
		for len(got) < 3 {
			m, err := sub.Next(ctx)
			if err != nil {
				t.Fatal(err)
			}
			got[fmt.Sprintf("%s %d %s", m.Topic, m.Number, m.Data)] = true
		}
		for _, want := range []string{"md.xnas.AAPL 1 one", "md.xnas.MSFT 0 two", "md.a.b.c 0 three"} {
			if !got[want] {
				t.Errorf("%q was not delivered: %v", want, got)
			}
		}
		for _, p := range []*Publisher{old, fresh, deep} {
			if err := p.Drain(ctx); err != nil {
				t.Fatal(err)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(handled)
		if want := []string{"md.xnas.AAPL 1 one", "md.xnas.MSFT 0 two"}; !slices.Equal(handled, want) {
			t.Errorf("the handler got %q, want %q", handled, want)
		}
	})
}

// Publishing on a pattern, and an invalid pattern, are typed errors.
func TestWildcardErrors(t *testing.T) {
	b := openBus(t, Config{}, memURL(t))
	if _, err := b.Publisher("md.*"); !errors.Is(err, ErrWildcard) || !errors.Is(err, ErrTopic) {
		t.Errorf("publisher of a pattern: error %v, want %v", err, ErrWildcard)
	}
	for _, text := range []string{"a.>.b", "a*", "", "a..b", ">>"} {
		var wrong *TopicError
		if _, err := b.Subscribe(text); !errors.As(err, &wrong) || errors.Is(err, ErrWildcard) {
			t.Errorf("Subscribe(%q): error %v, want a TopicError other than %v", text, err, ErrWildcard)
		}
	}
}

// A pattern with From(Window) delivers everything that the window holds of each matching topic, to readers and
// handlers, even if the packets with the names have left the window; and new topics. docs/protocol §9.9.
func TestWildcardFromWindow(t *testing.T) {
	for name, window := range map[string]int{"all": 0, "part": 64 << 10} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			url := memURL(t)
			pubBus, there := openBus(t, Config{WindowBytes: window}, url), openBus(t, Config{}, url)
			subscribe(t, there, "md.a") // other subscriptions of the bus have their own receiver
			pubs := map[string]*Publisher{}
			n := 0
			flush := func() {
				for _, p := range pubs {
					if err := p.Flush(ctx); err != nil {
						t.Fatal(err)
					}
				}
			}
			put := func(to int) {
				for ; n < to; n++ {
					for _, topic := range []string{"md.a", "md.b", "other"} {
						publish(t, ctx, pubs[topic], fmt.Sprint("message ", n))
					}
					if n < 400 { // separate packets: otherwise all may fit into the small window
						flush()
					}
				}
				flush()
			}
			for _, topic := range []string{"md.a", "md.b", "other"} {
				pubs[topic] = publisher(t, pubBus, topic)
			}
			wait(t, ctx, pubs["md.a"], 1)
			put(800)
			if err := pubs["md.a"].Drain(ctx); err != nil { // no earlier packet is unread
				t.Fatal(err)
			}
			got := make(chan Message, 10_000)
			take := func(m Message, err error) {
				if err != nil {
					t.Error(err)
				}
				got <- m.Clone()
			}
			sub := subscribe(t, there, "md.>", From(Window))
			go func() {
				for m, err := range sub.Messages(ctx) {
					take(m, err)
				}
			}()
			handled, err := there.Handle("md.*", take, From(Window))
			if err != nil {
				t.Fatal(err)
			}
			wait(t, ctx, pubs["md.a"], 3)
			wait(t, ctx, pubs["md.b"], 2) // in another group
			for _, topic := range []string{"md.a", "md.b"} {
				waitJoined(t, ctx, pubs[topic]) // messages soon leave a window of 64 KiB
			}
			put(900)
			fresh := publisher(t, pubBus, "md.c")
			publish(t, ctx, fresh, "message 0")
			publish(t, ctx, pubs["md.a"], "message 900")
			first, last := map[string][]uint64{}, map[string]int{}
			for len(last) < 2 || last["md.a"] < 2 || last["md.b"] < 2 || last["md.c"] < 2 {
				select {
				case m := <-got:
					if string(m.Data) != fmt.Sprint("message ", m.Number) || m.Topic == "other" {
						t.Fatalf("message %d of topic %s is %q, want \"message %d\"", m.Number, m.Topic, m.Data, m.Number)
					}
					first[m.Topic] = append(first[m.Topic], m.Number)
					if m.Number == map[string]uint64{"md.a": 900, "md.b": 899}[m.Topic] {
						last[m.Topic]++
					}
				case <-ctx.Done():
					t.Fatalf("got the last message of %v", last)
				}
			}
			for topic, end := range map[string]uint64{"md.a": 900, "md.b": 899, "md.c": 0} {
				numbers := first[topic]
				slices.Sort(numbers)
				// Both subscriptions got each message, except those that had left the window for one of them.
				for next, low := end+1, numbers[0]; next > low; next-- {
					i, ok := slices.BinarySearch(numbers, next-1)
					if twice := ok && i+1 < len(numbers) && numbers[i+1] == next-1; !ok || window == 0 && !twice {
						t.Fatalf("message %d of %s: delivered %v, twice %v", next-1, topic, ok, twice)
					}
				}
				if low := numbers[0]; window == 0 && low != 0 || window > 0 && end > 0 && (low == 0 || low > 800) {
					t.Errorf("topic %s begins with message %d, want 0, or 1 to 800 with a window", topic, low)
				}
			}
			if sub.Close() != nil || handled.Close() != nil {
				t.Error("not closed")
			}
		})
	}
}

// A subscription with Positions accepts no further patterns.
func TestWildcardAddedToPositions(t *testing.T) {
	b := openBus(t, Config{}, memURL(t))
	var wrong *TopicError
	if err := subscribe(t, b, "x", From(new(Positions))).Add("md.*"); !errors.Is(err, ErrWildcard) || !errors.As(err, &wrong) || wrong.Topic != "md.*" {
		t.Errorf("adding a pattern: error %v, want %v", err, ErrWildcard)
	}
}

// A pattern joins only the groups in which matching topics can be.
func TestWildcardJoinsFewGroups(t *testing.T) {
	b := openBus(t, Config{}, memURL(t)+"?groups=32&map=prefix:2")
	subscribe(t, b, "md.xnas.>")
	if n := len(b.Stats().Groups); n != 1 {
		t.Errorf("%d groups are joined, want 1", n)
	}
	subscribe(t, b, "md.*.AAPL")
	if n := len(b.Stats().Groups); n != 32 {
		t.Errorf("%d groups are joined, want 32", n)
	}
}

// Overlapping patterns and topics are added and removed: a message is delivered once while any of them matches, and
// not when none does.
func TestWildcardAddAndRemove(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		for _, handled := range []bool{false, true} {
			ctx := testContext(t)
			pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
			a, b := publisher(t, pubBus, "x.a"), publisher(t, pubBus, "x.b")
			got := make(chan string, 100)
			put := func(m Message, err error) {
				if err != nil {
					t.Error(err)
				}
				got <- fmt.Sprintf("%s %s", m.Topic, m.Data)
			}
			var sub *Subscription
			if handled {
				var err error
				if sub, err = subBus.Handle("x.a", put); err != nil {
					t.Fatal(err)
				}
			} else {
				sub = subscribe(t, subBus, "x.a")
				go func() {
					for m, err := range sub.Messages(ctx) {
						put(m, err)
					}
				}()
			}
			step := func(what string, change error, want ...string) {
				t.Helper()
				if change != nil {
					t.Fatalf("%s: change %v, want none", what, change)
				}
				for _, p := range []*Publisher{a, b} {
					if slices.Contains(want, p.Topic()) {
						wait(t, ctx, p, 1)
					}
				}
				publish(t, ctx, a, what)
				publish(t, ctx, b, what)
				for _, p := range []*Publisher{a, b} {
					if err := p.Drain(ctx); err != nil {
						t.Fatal(err)
					}
				}
				var all []string
				for range want {
					select {
					case m := <-got:
						all = append(all, m)
					case <-ctx.Done():
						t.Fatalf("%s: got %q, want %q", what, all, want)
					}
				}
				time.Sleep(5 * time.Millisecond) // leave time for messages that must not arrive
				for len(got) > 0 {
					all = append(all, <-got)
				}
				slices.Sort(all)
				for i := range want {
					want[i] += " " + what
				}
				if !slices.Equal(all, want) {
					t.Errorf("%s: got %q, want %q", what, all, want)
				}
			}
			wait(t, ctx, a, 1)
			step("exact", nil, "x.a")
			step("and pattern", sub.Add("x.*"), "x.a", "x.b")
			step("and another", sub.Add("x.>"), "x.a", "x.b")
			step("without exact", sub.Remove("x.a"), "x.a", "x.b")
			step("without the first pattern", sub.Remove("x.*", "x.b"), "x.a", "x.b")
			step("exact again", sub.Add("x.b"), "x.a", "x.b")
			step("without patterns", sub.Remove("x.>"), "x.b")
			step("without all", sub.Remove("x.b"))
			step("a pattern again", sub.Add("*.a"), "x.a")
			if err := sub.Close(); err != nil {
				t.Fatal(err)
			}
			a.Close(ctx)
			b.Close(ctx)
		}
	})
}

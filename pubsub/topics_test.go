package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// apart returns n topics that map to n different groups.
func apart(b *Bus, n int) []string {
	var topics []string
	used := make(map[int]bool)
	for i := 0; len(topics) < n; i++ {
		if name := fmt.Sprint("apart.", i); !used[b.Group(name)] {
			used[b.Group(name)] = true
			topics = append(topics, name)
		}
	}
	return topics
}

// Topics of the same group and of others are added and removed while messages are published: each is delivered from
// its addition to its removal, in order and without a gap.
func TestAddAndRemoveTopics(t *testing.T) {
	eachFabric(t, func(t *testing.T, url string) {
		for _, near := range []bool{true, false} {
			ctx := testContext(t)
			pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
			topics := apart(subBus, 3)
			if near {
				topics = sameGroup(subBus, 3)
			}
			a, b, c := topics[0], topics[1], topics[2]
			sub := subscribe(t, subBus, a)
			pubs := map[string]*Publisher{}
			for _, x := range topics {
				pubs[x] = publisher(t, pubBus, x)
			}
			wait(t, ctx, pubs[a], 1)
			publish(t, ctx, pubs[a], "a0")
			publish(t, ctx, pubs[b], "not subscribed")
			for _, x := range topics {
				if err := pubs[x].Flush(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if near {
				for subBus.Stats().Groups[0].Bytes == 0 || len(subBus.Stats().Groups) == 0 {
					time.Sleep(time.Millisecond)
				}
				if err := pubs[a].Drain(ctx); err != nil { // the message must have arrived, unread, when b is added
					t.Fatal(err)
				}
			}
			if err := sub.Add(b, c, a); err != nil {
				t.Fatal(err)
			}
			wait(t, ctx, pubs[b], 1)
			wait(t, ctx, pubs[c], 1)
			want(t, ctx, sub, "a0")
			for i := range 3 {
				for _, x := range topics {
					publish(t, ctx, pubs[x], fmt.Sprint(x, i))
					if m := want(t, ctx, sub, fmt.Sprint(x, i)); m.Topic != x {
						t.Errorf("message is of topic %s, want %s", m.Topic, x)
					}
				}
			}
			if err := sub.Remove(b, a, "never.there"); err != nil {
				t.Fatal(err)
			}
			publish(t, ctx, pubs[a], "removed")
			publish(t, ctx, pubs[b], "removed")
			publish(t, ctx, pubs[c], "stays")
			want(t, ctx, sub, "stays")
			if st := sub.Stats(); st.Topics != 1 || st.Messages != 11 || st.Gaps() != 0 {
				t.Errorf("%+v: want 1 topic, 11 messages and no gap", st)
			}
			for _, x := range []string{a, b} {
				for pubs[x].Subscribers() > 0 {
					time.Sleep(time.Millisecond)
				}
			}
			if err := sub.Add(a); err != nil { // a second time
				t.Fatal(err)
			}
			wait(t, ctx, pubs[a], 1)
			publish(t, ctx, pubs[a], "back")
			want(t, ctx, sub, "back")
			if err := sub.Remove(topics...); err != nil {
				t.Fatal(err)
			}
			short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			publish(t, ctx, pubs[a], "not subscribed")
			if _, err := sub.Next(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Next of a subscription without topics: error %v, want %v", err, context.DeadlineExceeded)
			}
			cancel()
			sub.Close()
			for name, err := range map[string]error{"Add": sub.Add(a), "Remove": sub.Remove(a)} {
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("%s on a closed subscription: error %v, want %v", name, err, net.ErrClosed)
				}
			}
			if err := sub.Add("not a topic"); !errors.Is(err, ErrTopic) {
				t.Errorf("Add of an invalid topic: error %v, want %v", err, ErrTopic)
			}
			subBus.Close()
			pubBus.Close()
		}
	})
}

// The same with a handler.
func TestAddAndRemoveTopicsOfHandler(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
	topics := append(sameGroup(subBus, 2), apart(subBus, 2)...)
	got := make(chan string, 100)
	sub, err := subBus.Handle(topics[0], func(m Message, err error) {
		if err != nil {
			t.Error(err)
		}
		got <- string(m.Data)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.Add(topics[1:]...); err != nil {
		t.Fatal(err)
	}
	var pubs []*Publisher
	for _, x := range topics {
		p := publisher(t, pubBus, x)
		pubs = append(pubs, p)
		wait(t, ctx, p, 1)
		publish(t, ctx, p, x)
		if text := <-got; text != x {
			t.Errorf("got %q, want %q", text, x)
		}
	}
	if err := sub.Remove(topics[1:]...); err != nil {
		t.Fatal(err)
	}
	for _, p := range pubs[1:] {
		publish(t, ctx, p, "removed")
	}
	for _, p := range pubs {
		if err := p.Drain(ctx); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, ctx, pubs[0], "stays")
	if text := <-got; text != "stays" {
		t.Errorf("message %q, want stays, not one of the removed topic", text)
	}
	if st := sub.Stats(); st.Topics != 1 || st.Messages < uint64(len(topics)) || len(st.Publishers) == 0 {
		t.Errorf("statistics %+v, want 1 topic, at least %d messages and a publisher", st, len(topics))
	}
}

// Topics are added and removed while messages are published and read: a topic that the subscription has throughout
// misses nothing.
func TestAddAndRemoveUnderLoad(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
	topics := append(sameGroup(subBus, 3), apart(subBus, 2)[1])
	sub := subscribe(t, subBus, topics[0])
	all := publisher(t, pubBus, topics[0])
	wait(t, ctx, all, 1)
	const n = 20_000
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i, x := range topics {
		p := publisher(t, pubBus, x)
		wg.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := p.Publish(ctx, fmt.Append(nil, k)); err != nil {
					t.Errorf("publishing message %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for {
			for _, x := range topics[1:] {
				if err := sub.Add(x); err != nil && !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			}
			// Until the reader has reached messages published after the change.
			for from := sub.Stats().Messages; sub.Stats().Messages < from+100; {
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
			for _, x := range topics[1:] {
				if err := sub.Remove(x); err != nil && !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	next := make(map[string]uint64)
	for next[topics[0]] < n || len(next) < 2 { // until all are published, and a message of an added topic was delivered
		m, err := sub.Next(ctx)
		var gap *GapError
		if errors.As(err, &gap) && gap.Topic == topics[3] {
			continue // without a known subscriber its publisher may outrun the joining one
		}
		if err != nil {
			t.Error(err)
			break
		}
		if was := next[m.Topic]; m.Topic == topics[0] && m.Number != was || m.Number < was {
			t.Errorf("topic %s: message %d arrived after %d", m.Topic, m.Number, was)
			break
		}
		if string(m.Data) != fmt.Sprint(m.Number) {
			t.Errorf("message %d is %q, want its number", m.Number, m.Data)
			break
		}
		next[m.Topic] = m.Number + 1
	}
	close(stop)
	sub.Close()
	wg.Wait()
}

// Stats of a slow subscription: unread packets, its publishers, and losses.
func TestSubscriptionStats(t *testing.T) {
	ctx := testContext(t)
	url := memURL(t)
	pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{MaxMessage: 100}, url)
	sub := subscribe(t, subBus, "x")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	publish(t, ctx, pub, "0")
	want(t, ctx, sub, "0")
	if st := sub.Stats(); st.Messages != 1 || st.Topics != 1 || len(st.Publishers) != 1 || st.Publishers[0].Publisher != pubBus.ID() || st.Publishers[0].Group == "" {
		t.Errorf("statistics after a message: %+v, want 1 message, 1 topic and 1 publisher", st)
	}
	for range 10 {
		publish(t, ctx, pub, string(make([]byte, 101)))
		if err := pub.Drain(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if st := sub.Stats(); st.Pending < 9 || st.Publishers[0].Lag != st.Pending || st.Gaps() != 0 {
		t.Errorf("statistics with packets unread: %+v, want at least 9 pending and no gaps", st)
	}
	msgs := make([]Message, 4)
	for range 10 {
		if _, err := sub.NextBatch(ctx, msgs); !errors.Is(err, ErrGap) {
			t.Fatal(err)
		}
	}
	st := sub.Stats()
	for _, x := range st.Lost {
		if want := x.Cause == events.CauseTooLarge; want != (x.Gaps == 10 && x.Messages == 10) || !want && x.Gaps > 0 {
			t.Errorf("loss %+v, want 10 gaps of 1 message, all of cause %v", x, events.CauseTooLarge)
		}
	}
	if st.Gaps() != 10 || st.Messages != 1 {
		t.Errorf("statistics at the end: %+v, want 1 message and 10 gaps", st)
	}
	subBus.Close()
	if st := sub.Stats(); st.Messages != 1 || st.Gaps() != 10 {
		t.Errorf("statistics of a closed bus: %+v, want 1 message and 10 gaps", st)
	}
}

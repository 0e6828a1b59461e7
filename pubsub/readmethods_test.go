package pubsub

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"

	"github.com/fanfaremq/fanfare/pubsub/events"
)

// Next, NextBatch and Messages may be used in turn and nested, and Stats called meanwhile: each message is delivered
// once.
func TestReadMethodsCanBeMixed(t *testing.T) {
	const n = 5000
	seed, err := strconv.ParseUint(simSeed(t), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		r := rand.New(rand.NewPCG(seed, 0))
		pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
		names := []string{"x", "y", "z"}
		sub := subscribe(t, subBus, "x", Topics(names...), PublisherEvents())
		var pubs []*Publisher
		groups, gone := make(map[int]bool), make(map[string]bool) // groups of the topics, and groups in which the publisher has ended
		for _, name := range names {
			pubs = append(pubs, publisher(t, pubBus, name))
			wait(t, ctx, pubs[len(pubs)-1], 1)
			groups[pubBus.Group(name)] = true
		}
		go func() {
			defer pubBus.Close()
			for i := range n {
				p := pubs[i%3] // one of three topics in turn
				if i%200 < 100 {
					p = pubs[0] // many in a row on one topic
				}
				pad := 1
				if i%500 == 499 {
					pad = 20_000 // several packets
				}
				if err := p.Publish(ctx, fmt.Appendf(nil, "%d %0*d", i, pad, 0)); err != nil {
					t.Error(err)
					return
				}
			}
		}()
		got, ended, last, numbers := 0, false, make(map[string]int), make(map[string]uint64)
		take := func(m Message, err error) {
			var e *PublisherEvent
			var i int
			switch {
			case errors.As(err, &e):
				if e.Kind == events.PublisherEnded {
					gone[e.Group] = true
					ended = len(gone) == len(groups)
				}
			case err != nil:
				t.Fatal(err)
			default:
				if _, err := fmt.Sscanf(string(m.Data), "%d", &i); err != nil || i < last[m.Topic] || m.Number != numbers[m.Topic] || m.Publisher() != pubBus.ID() {
					t.Fatalf("message %.40q on %s after %d, number %d, want %d", m.Data, m.Topic, last[m.Topic]-1, m.Number, numbers[m.Topic])
				}
				last[m.Topic] = i + 1
				numbers[m.Topic]++
				got++
			}
		}
		next := func() { take(sub.Next(ctx)) }
		batch := func() {
			msgs := make([]Message, 1+r.IntN(5))
			k, err := sub.NextBatch(ctx, msgs)
			if err != nil {
				take(Message{}, err)
			}
			for _, m := range msgs[:k] {
				take(m, nil)
			}
		}
		look := func() {
			if st := sub.Stats(); st.Messages != uint64(got) {
				t.Errorf("%d messages counted, %d read, want equal numbers", st.Messages, got)
			}
		}
		for !ended {
			switch r.IntN(4) {
			case 0:
				next()
			case 1:
				batch()
			case 2:
				look()
			case 3:
				left := r.IntN(40)
				for m, err := range sub.Messages(ctx) {
					if take(m, err); ended || left == 0 {
						break
					}
					if left--; r.IntN(10) == 0 && got < n {
						[]func(){next, batch, look}[r.IntN(3)]()
					}
					if ended {
						break
					}
				}
			}
		}
		if got != n {
			t.Errorf("%d messages, want %d", got, n)
		}
	})
}

// A loop over Messages that closes its subscription, or the bus, gets no further messages, even if more are waiting.
func TestCloseWithinMessages(t *testing.T) {
	for name, end := range map[string]func(*Bus, *Subscription) error{
		"subscription": func(_ *Bus, sub *Subscription) error { return sub.Close() },
		"bus":          func(bus *Bus, _ *Subscription) error { return bus.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			pubBus, subBus := openBus(t, Config{}, "mem://among-"+name), openBus(t, Config{}, "mem://among-"+name)
			sub := subscribe(t, subBus, "x")
			p := publisher(t, pubBus, "x")
			wait(t, ctx, p, 1)
			batch := make([][]byte, 100)
			for i := range batch {
				batch[i] = fmt.Append(nil, i)
			}
			if _, err := p.PublishBatch(ctx, batch); err != nil {
				t.Fatal(err)
			}
			n := 0
			for m, err := range sub.Messages(ctx) {
				if err != nil || string(m.Data) != fmt.Sprint(n) {
					t.Fatalf("message %q, error %v, want %d", m.Data, err, n)
				}
				if n++; n == 10 {
					if err := end(subBus, sub); err != nil {
						t.Fatal(err)
					}
					if string(m.Data) != "9" {
						t.Errorf("the message has changed to %q, want 9", m.Data)
					}
				}
			}
			if n != 10 {
				t.Errorf("%d messages, want those before the end", n)
			}
			if _, err := sub.Next(ctx); !errors.Is(err, net.ErrClosed) {
				t.Errorf("Next after the end: error %v, want %v", err, net.ErrClosed)
			}
		})
	}
}

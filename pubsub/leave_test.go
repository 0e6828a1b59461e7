package pubsub

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/pubsub/stats"
)

// A bus leaves a group that has had no subscription for a while. A later subscription receives messages published
// from then on; those published in between are no gap. Counters continue.
func TestUnusedGroupIsLeft(t *testing.T) {
	for name, subscribe := range map[string]func(t *testing.T, bus *Bus, got chan<- string) func() error{
		"read": func(t *testing.T, bus *Bus, got chan<- string) func() error {
			sub := subscribe(t, bus, "x")
			go func() {
				for m, err := range sub.Messages(t.Context()) {
					if err != nil {
						if m.Topic == "" {
							return // closed
						}
						got <- err.Error()
						continue
					}
					got <- string(m.Data)
				}
			}()
			return sub.Close
		},
		"handled": func(t *testing.T, bus *Bus, got chan<- string) func() error {
			sub, err := bus.Handle("x", func(m Message, err error) {
				if err != nil {
					got <- err.Error()
					return
				}
				got <- string(m.Data)
			})
			if err != nil {
				t.Fatal(err)
			}
			return sub.Close
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				url := memURL(t)
				pubBus, subBus := openBus(t, Config{Wait: WaitPark, Linger: -1}, url), openBus(t, Config{Wait: WaitPark}, url)
				pub := publisher(t, pubBus, "x")
				got := make(chan string, 100)
				group := func() stats.Group {
					t.Helper()
					st := subBus.Stats()
					if len(st.Groups) != 1 {
						t.Fatalf("groups %+v, want 1", st.Groups)
					}
					return st.Groups[0]
				}
				expect := func(want string) {
					t.Helper()
					wait(t, ctx, pub, 1)
					publish(t, ctx, pub, want)
					if s := <-got; s != want {
						t.Fatalf("got %q, want %q", s, want)
					}
				}

				end := subscribe(t, subBus, got)
				expect("first")
				end()
				time.Sleep(4 * time.Second)
				if !group().Joined {
					t.Fatal("left immediately")
				}
				end = subscribe(t, subBus, got)
				time.Sleep(10 * time.Second)
				expect("second")
				end()
				time.Sleep(6 * time.Second)
				if g := group(); g.Joined || g.Streams != 0 || g.Windows != 0 || g.Packets == 0 {
					t.Errorf("group %+v, want it left, without streams", g)
				}
				for range 1000 {
					publish(t, ctx, pub, "no subscription")
				}
				time.Sleep(time.Second)
				before := group().Packets
				end = subscribe(t, subBus, got)
				expect("third")
				if g := group(); !g.Joined || g.Packets <= before {
					t.Errorf("group %+v, want it joined, with more than %d packets", g, before)
				}
				end()
				if len(got) > 0 {
					t.Errorf("delivered %q, want nothing more", <-got)
				}
			})
		})
	}
}

package pubsub

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// readsUntilQuiet returns what a subscription delivers until it delivers nothing for a second.
func readsUntilQuiet(t *testing.T, ctx context.Context, s *Subscription) (got []string) {
	t.Helper()
	for {
		quiet, cancel := context.WithTimeout(ctx, time.Second)
		m, err := s.Next(quiet)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Topic+" "+string(m.Data))
	}
}

// After Remove of a topic or pattern none of its messages is delivered, neither waiting ones nor the one for which
// there was no room, unless another pattern still matches.
func TestConflateRemove(t *testing.T) {
	for _, c := range []struct {
		name    string
		topics  []string
		removed []string
		keys    int
		want    []string
	}{
		{"a topic", []string{"x.1", "x.2"}, []string{"x.1"}, 100, []string{"x.2 a", "x.2 b", "x.2 c"}},
		{"a topic, without room", []string{"x.1", "x.2"}, []string{"x.1"}, 1, []string{"x.2 a", "x.2 b", "x.2 c"}},
		{"a pattern", []string{"x.*", "y"}, []string{"x.*"}, 100, nil},
		{"a pattern, without room", []string{"x.*", "y"}, []string{"x.*"}, 1, nil},
		{"a pattern beside a topic", []string{"x.*", "x.2"}, []string{"x.*"}, 100, []string{"x.2 a", "x.2 b", "x.2 c"}},
		{"a topic beside a pattern", []string{"x.*", "x.2"}, []string{"x.2"}, 100, []string{"x.1 a", "x.1 b", "x.1 c", "x.2 a", "x.2 b", "x.2 c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				url := memURL(t)
				pubBus, subBus := openBus(t, Config{Wait: WaitPark}, url), openBus(t, Config{Wait: WaitPark}, url)
				s := subscribe(t, subBus, c.topics[0], Topics(c.topics[1:]...), SlowConsumer(SlowBlock), ConflateLimits(c.keys, 1<<20),
					Conflate(func(m Message) []byte { return m.Data }))
				for _, topic := range []string{"x.1", "x.2"} {
					pub := publisher(t, pubBus, topic)
					wait(t, ctx, pub, 1)
					for _, text := range []string{"a", "b", "c"} {
						publish(t, ctx, pub, text)
					}
					if err := pub.Flush(ctx); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				if err := s.Remove(c.removed...); err != nil {
					t.Fatal(err)
				}
				got := readsUntilQuiet(t, ctx, s)
				slices.Sort(got)
				if !slices.Equal(got, c.want) {
					t.Errorf("keys left %q, want %q", got, c.want)
				}
			})
		})
	}
}

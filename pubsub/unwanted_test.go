package pubsub

import (
	"context"
	"testing"
)

// Messages in a joined group on topics without a subscription are counted, whether readers, handlers or both take the
// others.
func TestUnwanted(t *testing.T) {
	for name, x := range map[string]struct {
		read, handled []string // topics
		unwanted      []string
	}{
		"nothing":         {read: []string{"a", "b", "c"}},
		"read":            {read: []string{"a"}, unwanted: []string{"b", "c"}},
		"handled":         {handled: []string{"a"}, unwanted: []string{"b", "c"}},
		"both":            {read: []string{"a"}, handled: []string{"b"}, unwanted: []string{"c"}},
		"both of one":     {read: []string{"a"}, handled: []string{"a"}, unwanted: []string{"b", "c"}},
		"both, all taken": {read: []string{"a", "b"}, handled: []string{"b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			end, ended := context.WithCancel(ctx)
			defer ended()
			url := memURL(t) + "?groups=1"
			pubBus, subBus := openBus(t, Config{}, url), openBus(t, Config{}, url)
			// The last message shows that all before it was delivered.
			read, handled := x.read, x.handled
			if len(read) > 0 {
				read = append(read, "fence")
			} else {
				handled = append(handled, "fence")
			}
			if len(read) > 0 {
				sub := subscribe(t, subBus, read[0], Topics(read[1:]...))
				go func() {
					for m, err := range sub.Messages(end) {
						if err != nil || m.Topic == "fence" {
							ended()
						}
					}
				}()
			}
			if len(handled) > 0 {
				_, err := subBus.Handle(handled[0], func(m Message, err error) {
					if err != nil || m.Topic == "fence" {
						ended()
					}
				}, Topics(handled[1:]...))
				if err != nil {
					t.Fatal(err)
				}
			}
			last := publisher(t, pubBus, "fence")
			wait(t, ctx, last, 1)
			const each = 10
			pubs := []*Publisher{publisher(t, pubBus, "a"), publisher(t, pubBus, "b"), publisher(t, pubBus, "c")}
			for range each {
				for _, pub := range pubs {
					publish(t, ctx, pub, "12345678")
				}
			}
			publish(t, ctx, last, "end")
			<-end.Done()
			if ctx.Err() != nil {
				t.Fatal("the last message did not arrive")
			}
			g := subBus.Stats().Groups[0]
			messages := uint64(each * len(x.unwanted))
			if g.UnwantedBytes != 20*g.UnwantedRuns+messages*(2+8) || g.UnwantedRuns > messages || (g.UnwantedRuns > 0) != (messages > 0) {
				t.Errorf("%d runs of %d bytes are counted; %d unwanted messages were sent, want each 20 bytes with its messages of 10", g.UnwantedRuns, g.UnwantedBytes, messages)
			}
		})
	}
}

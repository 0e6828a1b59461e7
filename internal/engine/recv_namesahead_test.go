package engine

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanfaremq/fanfare/internal/pattern"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
)

func TestNamesAheadEnd(t *testing.T) {
	const s = time.Second
	start := reliable.Instant(time.Hour)
	for name, c := range map[string]struct{ latest, want time.Duration }{
		"no names":               {0, 2 * s},
		"some names":             {s, 3 * s},
		"names until the limit":  {9 * s, 10 * s},
		"names beyond the limit": {10*s - 1, 10 * s},
	} {
		a := &namesAhead{began: start, latest: start.Add(c.latest)}
		if got := a.until(2 * s).Sub(start); got != c.want {
			t.Errorf("%s: patterns begin after %v, want %v", name, got, c.want)
		}
	}
}

// A subscription to a pattern waits one recovery deadline for names of a publisher that sends none. It returns at once if
// the bus is closed. docs/protocol §9.9.
func TestPatternWaitsForNames(t *testing.T) {
	all, err := pattern.Parse(">")
	if err != nil {
		t.Fatal(err)
	}
	for name, closed := range map[string]bool{"waits": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, l := newLoop(t, Config{Wait: WaitPark, Receiver: reliable.ReceiverConfig{Deadline: 2 * time.Second}})
				subscribeTo(t, l, TopicName{Name: "x"}, policyBlock, nil)
				b := make([]byte, wire.DataHeaderLen, 512)
				l.do(func() {
					g := l.find(0, nil)
					wire.PutDataHeader(b, wire.Header{GroupTag: wire.GroupTag(g.address), Publisher: 7, Epoch: 3}, 512)
					wire.SetSeq(b, 5)
					g.r.Handle(l.now(), 0, b)
				})
				if closed {
					time.AfterFunc(time.Second, func() { l.Close(context.Background()) })
				}
				began := time.Now()
				_, err := l.Subscribe([]TopicName{{Name: ">", Pattern: all}}, policyBlock, From{}, false, nil)
				d := time.Since(began)
				if closed && (!errors.Is(err, net.ErrClosed) || d < time.Second || d > 1100*time.Millisecond) || !closed && (err != nil || d < 2*time.Second || d > 2*time.Second+time.Millisecond) {
					t.Errorf("Subscribe returned %v after %v, want nil after 2s, or %v after 1s with Close", err, d, net.ErrClosed)
				}
				if !closed {
					l.do(func() {
						if g := l.find(0, nil); g.patterns.ahead != nil || g.patterns.set.Len() != 1 {
							t.Errorf("names ahead %v, %d patterns, want nil and 1", g.patterns.ahead, g.patterns.set.Len())
						}
					})
				}
			})
		})
	}
}

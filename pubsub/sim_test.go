package pubsub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma/fabric"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/simnet"
)

// simSeed is the seed of lossy subnets: 1, or the environment's FANFARE_SEED.
func simSeed(t testing.TB) string {
	seed := os.Getenv("FANFARE_SEED")
	if seed == "" {
		seed = "1"
	}
	t.Logf("FANFARE_SEED=%s", seed)
	return seed
}

// account is what a subscription got of one publisher's topic: all messages in
// their order, once each, but for those that a gap told of.
type account struct {
	t         testing.TB
	next      uint64 // number of the next message
	delivered uint64
	gone      uint64 // told by gaps
}

func (a *account) take(m Message, err error) error {
	var gap *GapError
	switch {
	case errors.As(err, &gap):
		if gap.First != a.next || gap.Count == 0 {
			return fmt.Errorf("gap of %d from %d on, where %d was next", gap.Count, gap.First, a.next)
		}
		a.next += gap.Count
		a.gone += gap.Count
	case err != nil:
		return err
	case m.Number != a.next || string(m.Data) != simMessage(int(m.Number)):
		return fmt.Errorf("message %d (%q), where %d was next", m.Number, m.Data, a.next)
	default:
		a.next++
		a.delivered++
	}
	return nil
}

// simMessage has sizes from a few bytes to several packets.
func simMessage(i int) string {
	n := i * 37 % 600
	if i%97 == 0 {
		n = 9000
	}
	return fmt.Sprintf("%d %s", i, strings.Repeat("m", n))
}

// Nothing is lost silently, whatever the subnet does: each of three subscribers
// gets every message in order and once, or is told of a gap in its place.
func TestSimAdversity(t *testing.T) {
	const messages, subscribers = 3000, 3
	for name, c := range map[string]struct {
		options string
		strike  func(f *fabric.Fabric, pub, sub *fabric.Host) // twice on the way
		check   func(t *testing.T, subnet *simnet.Subnet, pub, sub transport.Stats)
		gaps    bool // may be
	}{
		"lossy": {
			options: "loss=0.03&dup=0.02&reorder=0.03",
			check: func(t *testing.T, s *simnet.Subnet, _, _ transport.Stats) {
				if st := s.Fabric.Stats(); st.Lost == 0 || st.Duplicated == 0 {
					t.Errorf("the subnet lost nothing: %+v", st)
				}
			},
		},
		"lossy RoCE": {options: "flavor=roce&loss=0.03&dup=0.02&reorder=0.03&mtu=1024"},
		"no send-only members": {
			options: "sendonly=off&loss=0.01",
			check: func(t *testing.T, _ *simnet.Subnet, pub, _ transport.Stats) {
				if pub.SendOnlyRefused != 1 {
					t.Errorf("%d send-only joins were refused", pub.SendOnlyRefused)
				}
			},
		},
		"receive queue of 16":        {options: "rq=16"},
		"receive queue of 16, lossy": {options: "rq=16&loss=0.02&switches=3&latency=2us"},
		"subscriber registers again": {
			strike: func(_ *fabric.Fabric, _, sub *fabric.Host) { sub.Port(0, 1).Reregister() },
			check: func(t *testing.T, _ *simnet.Subnet, _, sub transport.Stats) {
				if sub.MembershipsLost == 0 { // the second strike may find it joining
					t.Error("no membership was lost")
				}
			},
		},
		"publisher changes its LID": {
			strike: func(_ *fabric.Fabric, pub, _ *fabric.Host) { pub.Port(0, 1).ChangeLID() },
		},
		"new subnet manager": {
			strike: func(f *fabric.Fabric, _, _ *fabric.Host) { f.RestartSM() },
		},
		"subscriber's port goes down and up": {
			strike: func(_ *fabric.Fabric, _, sub *fabric.Host) {
				sub.Port(0, 1).SetUp(false)
				sub.Port(0, 1).SetUp(true)
			},
			gaps: true,
		},
		"publisher's port goes down and up, RoCE": {
			options: "flavor=roce",
			strike: func(_ *fabric.Fabric, pub, _ *fabric.Host) {
				pub.Port(0, 1).SetUp(false)
				pub.Port(0, 1).SetUp(true)
			},
			gaps: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			url := simURL(t) + "?seed=" + simSeed(t)
			if c.options != "" {
				url += "&" + c.options
			}
			pubBus := openBus(t, Config{}, strings.ReplaceAll(url, "rq=16", "rq=4096"))
			subnet := simnet.Lookup(strings.TrimPrefix(simURL(t), "sim://"))
			hosts := []*fabric.Host{subnet.Host(0)}
			var wg sync.WaitGroup
			var gone atomic.Uint64
			var buses []*Bus
			for i := range subscribers {
				bus := openBus(t, Config{}, url)
				buses = append(buses, bus)
				hosts = append(hosts, subnet.Host(i+1))
				sub := subscribe(t, bus, "numbers")
				wg.Go(func() {
					a := account{t: t}
					for a.next < messages {
						if err := a.take(sub.Next(ctx)); err != nil {
							t.Errorf("subscriber %d, after %d messages: %v", i, a.delivered, err)
							return
						}
					}
					gone.Add(a.gone)
				})
			}
			pub := publisher(t, pubBus, "numbers")
			wait(t, ctx, pub, subscribers)
			for i := range messages {
				if c.strike != nil && (i == messages/3 || i == messages*2/3) {
					c.strike(subnet.Fabric, hosts[0], hosts[1])
				}
				publish(t, ctx, pub, simMessage(i))
			}
			if err := pub.Flush(ctx); err != nil {
				t.Fatal(err)
			}
			wg.Wait()
			if n := gone.Load(); n > 0 && !c.gaps {
				t.Errorf("%d messages were lost for good, where all could be repaired", n)
			}
			if c.check != nil {
				c.check(t, subnet, pubBus.Stats().Transport, buses[0].Stats().Transport)
			}
			if n := pubBus.Stats().Transport.PacketsReceived; n == 0 {
				t.Error("the publisher heard no status")
			}
		})
	}
}

// When the multicast LIDs are used up, those who come too late are told, on
// either side, and the others go on.
func TestSimMLIDsExhausted(t *testing.T) {
	ctx := testContext(t)
	url := simURL(t) + "?mlids=1&groups=8"
	failed := make(chan Event, 16)
	tell := func(e Event) {
		if e.Kind == GroupFailed {
			failed <- e
		}
	}
	pubBus, subBus := openBus(t, Config{OnEvent: tell}, url), openBus(t, Config{OnEvent: tell}, url)
	first := "topic.0"
	second := first
	for i := 1; pubBus.Group(second) == pubBus.Group(first); i++ {
		second = fmt.Sprintf("topic.%d", i)
	}
	sub := subscribe(t, subBus, first)
	pub := publisher(t, pubBus, first)
	wait(t, ctx, pub, 1)

	// A subscriber: its stream ends with the reason.
	late := subscribe(t, subBus, second)
	if _, err := late.Next(ctx); !errors.Is(err, transport.ErrGroupLimit) {
		t.Errorf("subscription beyond the limit: %v", err)
	}
	if e := <-failed; !errors.Is(e.Err, transport.ErrGroupLimit) {
		t.Errorf("event: %v", e)
	}
	// A publisher: publishing fails, and does not wait.
	latePub := publisher(t, pubBus, second)
	<-failed
	if err := latePub.Publish(ctx, []byte("lost?")); !errors.Is(err, transport.ErrGroupLimit) {
		t.Errorf("Publish beyond the limit: %v", err)
	}
	for i := range 10 {
		publish(t, ctx, pub, fmt.Sprint(i))
		want(t, ctx, sub, fmt.Sprint(i))
	}
}

// What is published before the group is joined is sent when it is. Who waits for
// that gives up with his context.
func TestSimPublishBeforeJoined(t *testing.T) {
	ctx := testContext(t)
	pubBus, subBus := openBus(t, Config{}, simURL(t)), openBus(t, Config{}, simURL(t))
	subnet := simnet.Lookup(strings.TrimPrefix(simURL(t), "sim://"))
	sub := subscribe(t, subBus, "x")
	for g := subBus.Stats().Groups; len(g) == 0 || !g[0].Joined; g = subBus.Stats().Groups {
		runtime.Gosched()
	}
	subnet.Fabric.SetSM(fabric.SM{ResponseDelay: 100 * time.Millisecond})
	pub := publisher(t, pubBus, "x")
	for i := range 5 {
		publish(t, ctx, pub, fmt.Sprint(i))
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := pub.Flush(short); !errors.Is(err, context.Canceled) {
		t.Errorf("Flush without a membership: %v", err)
	}
	for i := range 5 {
		want(t, ctx, sub, fmt.Sprint(i))
	}
}

// A device that is taken away ends the bus with an error that says so; the
// others hear that the publisher is lost.
func TestSimDeviceRemoval(t *testing.T) {
	ctx := testContext(t)
	pubBus, subBus := openBus(t, Config{}, simURL(t)), openBus(t, Config{}, simURL(t))
	subnet := simnet.Lookup(strings.TrimPrefix(simURL(t), "sim://"))
	sub := subscribe(t, subBus, "x")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	publish(t, ctx, pub, "last words")
	want(t, ctx, sub, "last words")
	subnet.Host(1).RemoveDevice(0)
	if _, err := sub.Next(ctx); err == nil || !strings.Contains(err.Error(), "removed") {
		t.Errorf("Next: %v", err)
	}
	if err := subBus.Close(); err != nil && !strings.Contains(err.Error(), "removed") {
		t.Errorf("Close: %v", err)
	}
}

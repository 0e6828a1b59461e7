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

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
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

// account checks what a subscription gets of one publisher's topic: each message once and in order, or a gap.
type account struct {
	t         testing.TB
	next      uint64 // number of the next message
	delivered uint64
	gone      uint64 // messages in gaps
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

// simMessage returns message i, with sizes from a few bytes to several packets.
func simMessage(i int) string {
	n := i * 37 % 600
	if i%97 == 0 {
		n = 9000
	}
	return fmt.Sprintf("%d %s", i, strings.Repeat("m", n))
}

// adversity is a fault of a subnet while a publisher and three subscribers run.
type adversity struct {
	options string
	// strike causes the fault, twice, and cure, if not nil, ends it; messages are published meanwhile.
	strike, cure func(s *simnet.Subnet, pub, sub *fabric.Host)
	// pub and subs are the indexes of the buses that report GroupLost and GroupBack
	pub, subs []int
	check     func(t *testing.T, s *simnet.Subnet, pub *Bus, subs []*Bus)
	crowd     bool // another publisher of the group has no flow control
	gaps      bool // gaps are allowed
}

var adversities = map[string]adversity{
	"lossy": {
		options: "loss=0.03&dup=0.02&reorder=0.03",
		check: func(t *testing.T, s *simnet.Subnet, _ *Bus, subs []*Bus) {
			if st := s.Fabric.Stats(); st.Lost == 0 || st.Duplicated == 0 {
				t.Errorf("the subnet lost or duplicated no packets: %+v", st)
			}
			someMissed(t, subs...)
		},
	},
	"lossy RoCE": {
		options: "flavor=roce&loss=0.03&dup=0.02&reorder=0.03&mtu=1024",
		check: func(t *testing.T, s *simnet.Subnet, _ *Bus, subs []*Bus) {
			if st := s.Fabric.Stats(); st.Lost == 0 || st.Duplicated == 0 {
				t.Errorf("the subnet lost or duplicated no packets: %+v", st)
			}
			someMissed(t, subs...)
		},
	},
	"no send-only members": {
		options: "sendonly=off&loss=0.03",
		check: func(t *testing.T, _ *simnet.Subnet, pub *Bus, subs []*Bus) {
			if n := pub.Stats().Transport.SendOnlyRefused; n < 1 || n > 2 { // the second is the group of hellos
				t.Errorf("%d send-only joins were refused, want 1 or 2", n)
			}
			someMissed(t, subs...)
		},
	},
	"receive queue of 16": {options: "rq=16&groups=1", check: overflowed, crowd: true, gaps: true},
	"receive queue of 16, lossy": {
		options: "rq=16&groups=1&loss=0.02&switches=3&latency=2us", check: overflowed, crowd: true, gaps: true,
	},
	"subscriber registers again": {
		strike: func(_ *simnet.Subnet, _, sub *fabric.Host) { sub.Port(0, 1).Reregister() },
		subs:   []int{0},
	},
	"publisher changes its LID": {
		strike: func(_ *simnet.Subnet, pub, _ *fabric.Host) { pub.Port(0, 1).ChangeLID() },
		pub:    []int{0},
	},
	"new subnet manager": {
		strike: func(s *simnet.Subnet, _, _ *fabric.Host) { s.Fabric.RestartSM() },
		pub:    []int{0}, subs: []int{0, 1, 2},
	},
	"subscriber's port goes down and up": {
		strike: func(_ *simnet.Subnet, _, sub *fabric.Host) { sub.Port(0, 1).SetUp(false) },
		cure:   func(_ *simnet.Subnet, _, sub *fabric.Host) { sub.Port(0, 1).SetUp(true) },
		subs:   []int{0},
		check:  func(t *testing.T, _ *simnet.Subnet, _ *Bus, subs []*Bus) { someMissed(t, subs[0]) },
		gaps:   true,
	},
	"publisher's port goes down and up": {
		strike: func(_ *simnet.Subnet, pub, _ *fabric.Host) { pub.Port(0, 1).SetUp(false) },
		cure:   func(_ *simnet.Subnet, pub, _ *fabric.Host) { pub.Port(0, 1).SetUp(true) },
		pub:    []int{0},
		gaps:   true,
	},
	"subscriber's port goes down and up, RoCE": {
		options: "flavor=roce",
		strike:  func(_ *simnet.Subnet, _, sub *fabric.Host) { sub.Port(0, 1).SetUp(false) },
		cure:    func(_ *simnet.Subnet, _, sub *fabric.Host) { sub.Port(0, 1).SetUp(true) },
		subs:    []int{0},
		check:   func(t *testing.T, s *simnet.Subnet, _ *Bus, subs []*Bus) { someMissed(t, subs[0]) },
		gaps:    true,
	},
	"publisher's port goes down and up, RoCE": {
		options: "flavor=roce",
		strike:  func(_ *simnet.Subnet, pub, _ *fabric.Host) { pub.Port(0, 1).SetUp(false) },
		cure:    func(_ *simnet.Subnet, pub, _ *fabric.Host) { pub.Port(0, 1).SetUp(true) },
		pub:     []int{0},
		gaps:    true,
	},
}

// someMissed checks that some of the buses had missing packets.
func someMissed(t *testing.T, buses ...*Bus) {
	t.Helper()
	var n uint64
	for _, b := range buses {
		for _, g := range b.Stats().Groups {
			n += g.Missing
		}
	}
	if n == 0 {
		t.Error("no packet was ever missing: the test shows nothing")
	}
}

// overflowed checks that receive queues were too short.
func overflowed(t *testing.T, _ *simnet.Subnet, _ *Bus, subs []*Bus) {
	var n uint64
	for _, b := range subs {
		n += b.Stats().Transport.ReceiveOverflow
	}
	if n == 0 {
		t.Error("no receive queue was ever too short: the test shows nothing")
	}
}

// No loss is silent, whatever the subnet does: each of three subscribers gets every message in order and once, or a
// gap in its place.
func TestSimAdversity(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	for name, c := range adversities {
		t.Run(name, c.run)
	}
}

// watched is a bus with channels for GroupLost and GroupBack.
type watched struct {
	*Bus
	lost, back chan struct{}
}

func watch(t *testing.T, url string) *watched {
	w := &watched{lost: make(chan struct{}, 1024), back: make(chan struct{}, 1024)}
	w.Bus = openBus(t, Config{OnEvent: func(e events.Event) {
		switch e.Kind {
		case events.GroupLost:
			w.lost <- struct{}{}
		case events.GroupBack:
			w.back <- struct{}{}
		}
	}}, url)
	return w
}

func await(t *testing.T, ctx context.Context, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-ctx.Done():
		t.Fatalf("timeout waiting until %s", what)
	}
}

func (c adversity) run(t *testing.T) {
	const part, subscribers = 600, 3
	ctx := testContext(t)
	url := simURL(t) + "?seed=" + simSeed(t)
	if c.options != "" {
		url += "&" + c.options
	}
	pubBus := watch(t, strings.ReplaceAll(url, "rq=16", "rq=4096"))
	subnet := simnet.Lookup(strings.TrimPrefix(simURL(t), "sim://"))
	strikes, messages := 0, uint64(5*part)
	if c.strike != nil {
		strikes = 2
	}
	var wg sync.WaitGroup
	var gone atomic.Uint64
	var progress [subscribers]atomic.Uint64
	var subs []*watched
	var buses []*Bus
	for i := range subscribers {
		bus := watch(t, url)
		subs, buses = append(subs, bus), append(buses, bus.Bus)
		sub := subscribe(t, bus.Bus, "numbers")
		wg.Go(func() {
			a := account{t: t}
			for a.next < messages {
				if err := a.take(sub.Next(ctx)); err != nil {
					t.Errorf("subscriber %d, after %d messages: %v", i, a.delivered, err)
					return
				}
				progress[i].Store(a.next)
			}
			gone.Add(a.gone)
		})
	}
	pub := publisher(t, pubBus.Bus, "numbers")
	wait(t, ctx, pub, subscribers)
	sent := 0
	more := func() {
		for range part {
			publish(t, ctx, pub, simMessage(sent))
			sent++
		}
	}
	all := func() { // waits until all subscribers have what was sent
		if err := pub.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		for i := range progress {
			for progress[i].Load() < uint64(sent) {
				if ctx.Err() != nil || t.Failed() {
					t.Fatalf("subscriber %d has %d messages of %d", i, progress[i].Load(), sent)
				}
				time.Sleep(100 * time.Microsecond)
			}
		}
	}
	pubHost, subHost := subnet.Host(0), subnet.Host(1)
	if c.crowd {
		loud := publisher(t, openBus(t, Config{FlowControl: FlowNone}, strings.ReplaceAll(url, "rq=16", "rq=4096")), "noise")
		defer wg.Wait()
		wg.Go(func() {
			for range 2000 {
				if err := loud.Publish(ctx, make([]byte, 2000)); err != nil {
					t.Errorf("the other publisher: %v", err)
					return
				}
			}
		})
	}
	more()
	for range strikes {
		all()
		c.strike(subnet, pubHost, subHost)
		for range c.pub {
			await(t, ctx, pubBus.lost, "the publisher reports that its membership is lost")
		}
		for _, i := range c.subs {
			await(t, ctx, subs[i].lost, "a subscriber reports that its membership is lost")
		}
		more()
		if c.cure != nil {
			c.cure(subnet, pubHost, subHost)
		}
		for range c.pub {
			await(t, ctx, pubBus.back, "the publisher is a member again")
		}
		for _, i := range c.subs {
			await(t, ctx, subs[i].back, "a subscriber is a member again")
		}
		more()
	}
	for uint64(sent) < messages {
		more()
	}
	if err := pub.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if n := gone.Load(); n > 0 && !c.gaps {
		t.Errorf("%d messages were lost permanently, although all could be repaired", n)
	}
	for _, bus := range append(subs, pubBus) {
		want, most := 0, 0
		if bus == pubBus {
			want = strikes * len(c.pub)
			most = 2 * want // the group of hellos is one more
		}
		for _, i := range c.subs {
			if bus == subs[i] {
				want = strikes
			}
		}
		if n := bus.Stats().Transport.MembershipsLost; n < uint64(want) || n > uint64(max(want, most)) {
			t.Errorf("%d memberships were lost, want %d", n, want)
		}
	}
	if c.check != nil {
		c.check(t, subnet, pubBus.Bus, buses)
	}
	if n := pubBus.Stats().Transport.PacketsReceived; n == 0 {
		t.Error("the publisher received no status")
	}
}

// When the multicast LIDs are used up, new publishers and subscribers get an error, and others continue.
func TestSimMLIDsExhausted(t *testing.T) {
	ctx := testContext(t)
	url := simURL(t) + "?mlids=1&groups=8"
	failures := func(to chan events.Event) func(events.Event) {
		return func(e events.Event) {
			if e.Kind == events.GroupFailed {
				to <- e
			}
		}
	}
	pubFailed, subFailed := make(chan events.Event, 64), make(chan events.Event, 64)
	pubBus, subBus := openBus(t, Config{OnEvent: failures(pubFailed)}, url), openBus(t, Config{OnEvent: failures(subFailed)}, url)
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
	e := <-subFailed
	if !errors.Is(e.Err, transport.ErrGroupLimit) {
		t.Errorf("event's error %v, want %v", e.Err, transport.ErrGroupLimit)
	}
	// A publisher: publishing fails, and does not wait.
	known := pubBus.Stats().Publications[0].Address
	latePub := publisher(t, pubBus, second)
	for _, p := range pubBus.Stats().Publications {
		if p.Address == known {
			continue
		}
		for (<-pubFailed).Group != p.Address {
			// Hellos go to another group, which cannot be joined either.
		}
	}
	if err := latePub.Publish(ctx, []byte("lost?")); !errors.Is(err, transport.ErrGroupLimit) {
		t.Errorf("Publish beyond the limit: %v", err)
	}
	for i := range 10 {
		publish(t, ctx, pub, fmt.Sprint(i))
		want(t, ctx, sub, fmt.Sprint(i))
	}

	// Once there are more LIDs, a new attempt to join succeeds.
	late.Close()
	simnet.Lookup(strings.TrimSuffix(strings.TrimPrefix(url, "sim://"), "?mlids=1&groups=8")).Fabric.SetSM(fabric.SM{})
	sub, pub = subscribe(t, subBus, second), publisher(t, pubBus, second)
	wait(t, ctx, pub, 1)
	publish(t, ctx, pub, "again")
	want(t, ctx, sub, "again")
	publish(t, ctx, latePub, "after the failure")
	want(t, ctx, sub, "after the failure")
}

// Messages published before the group is joined are sent when it is. Flush meanwhile waits until its context ends.
func TestSimPublishBeforeJoined(t *testing.T) {
	t.Parallel() // the test mostly waits
	ctx := testContext(t)
	pubBus, subBus := openBus(t, Config{}, simURL(t)), openBus(t, Config{}, simURL(t))
	subnet := simnet.Lookup(strings.TrimPrefix(simURL(t), "sim://"))
	sub := subscribe(t, subBus, "x")
	for g := subBus.Stats().Groups; len(g) == 0 || !g[0].Joined; g = subBus.Stats().Groups {
		runtime.Gosched()
	}
	subnet.Fabric.SetSM(fabric.SM{Silent: true})
	pub := publisher(t, pubBus, "x")
	for i := range 5 {
		publish(t, ctx, pub, fmt.Sprint(i))
	}
	short, cancel := context.WithCancel(ctx)
	cancel()
	if err := pub.Flush(short); !errors.Is(err, context.Canceled) {
		t.Errorf("Flush without a membership: error %v, want %v", err, context.Canceled)
	}
	subnet.Fabric.SetSM(fabric.SM{}) // the join is retried there
	for i := range 5 {
		want(t, ctx, sub, fmt.Sprint(i))
	}
}

// Removing a device ends its bus with an error that says so, for publishers and subscribers; subscribers of a removed
// publisher report PublisherLost.
func TestSimDeviceRemoval(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	for _, removed := range []string{"subscriber", "publisher"} {
		t.Run(removed, func(t *testing.T) {
			ctx := testContext(t)
			lost := make(chan events.Event, 16)
			pubBus := openBus(t, Config{}, simURL(t))
			subBus := openBus(t, Config{OnEvent: func(e events.Event) {
				if e.Kind == events.PublisherLost {
					lost <- e
				}
			}}, simURL(t))
			subnet := simnet.Lookup(strings.TrimPrefix(simURL(t), "sim://"))
			sub := subscribe(t, subBus, "x")
			pub := publisher(t, pubBus, "x")
			wait(t, ctx, pub, 1)
			publish(t, ctx, pub, "last words")
			want(t, ctx, sub, "last words")
			struck := subBus
			if removed == "subscriber" {
				subnet.Host(1).RemoveDevice(0)
				if _, err := sub.Next(ctx); err == nil || !strings.Contains(err.Error(), "removed") {
					t.Errorf("Next: error %v, want one containing \"removed\"", err)
				}
			} else {
				struck = pubBus
				subnet.Host(0).RemoveDevice(0)
				var err error
				for err == nil { // until the bus has noticed
					err = pub.Publish(ctx, []byte("lost words"))
				}
				if !strings.Contains(err.Error(), "removed") {
					t.Errorf("Publish: error %v, want one containing \"removed\"", err)
				}
				select {
				case e := <-lost:
					if e.Publisher != pubBus.ID() {
						t.Errorf("event: %v, want one of %v", e, pubBus.ID())
					}
				case <-ctx.Done():
					t.Error("the subscriber has not reported that the publisher is lost")
				}
			}
			if err := struck.Close(); err != nil && !strings.Contains(err.Error(), "removed") {
				t.Errorf("Close: error %v, want none or one containing \"removed\"", err)
			}
		})
	}
}

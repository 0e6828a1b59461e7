package pubsub

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/pubsub/stats"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/legs"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// pair returns two URLs of a fabric.
func pair(url func(testing.TB) string, t testing.TB) []string {
	a := url(t)
	if strings.HasPrefix(a, "mem://") {
		return []string{a + "_a", a + "_b"}
	}
	return []string{a, url(t)}
}

func openLegs(t testing.TB, c Config, urls ...string) *Bus {
	t.Helper()
	if c.RecoveryDeadline == 0 {
		c.RecoveryDeadline = time.Minute
	}
	if c.Silence == 0 {
		c.Silence = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = quiet
	}
	b, err := c.Open(context.Background(), urls[0], urls[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// receiveNumbers reads n messages and checks that they are the numbers from 0 on.
func receiveNumbers(t testing.TB, ctx context.Context, s *Subscription, n int) {
	t.Helper()
	for i := range n {
		m, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if got := string(m.Data); got != fmt.Sprint(i) {
			t.Fatalf("message %d is %q, want its number", i, got)
		}
	}
}

// With two legs that each lose a fifth of all packets, every message arrives once and in order, and only packets lost
// on both are requested.
func TestLegsFillEachOther(t *testing.T) {
	for name, url := range map[string]func(testing.TB) string{"mem": memURL, "udp": udpURL} {
		t.Run(name, func(t *testing.T) {
			ctx, urls := testContext(t), pair(url, t)
			pubBus, subBus := openLegs(t, Config{}, urls...), openLegs(t, Config{Faults: "loss=0.2,seed=3"}, urls...)
			p, s := publisher(t, pubBus, "a.b"), subscribe(t, subBus, "a.b")
			wait(t, ctx, p, 1)
			const n = 20000
			go func() {
				for i := range n {
					if p.Publish(ctx, fmt.Append(nil, i)) != nil {
						return
					}
					if i%4 == 0 {
						p.Flush(ctx)
					}
				}
			}()
			receiveNumbers(t, ctx, s, n)
			st := subBus.Stats()
			g := st.Groups[subBus.Group("a.b")%len(st.Groups)]
			for i, l := range st.Legs {
				all := float64(l.Packets + l.Lost)
				if share := float64(l.Lost) / all; math.Abs(share-0.2) > 0.04 || l.URL != urls[i] || !l.Up {
					t.Errorf("leg %d: %+v: a share of %.3f was lost, want 0.16 to 0.24, with the leg up", i, l, share)
				}
				if l.Filled < l.Lost/3 { // a busy host requests more than necessary
					t.Errorf("leg %d: %+v: too little of what it lost was filled", i, l)
				}
			}
			// Both legs lost 0.04 of the packets, which is what a bus requests in virtual time (TestLegsRequestOnlyCommonLosses
			// of test/sim checks that). A busy host reads one leg late, and requests more.
			if share := float64(g.NAKPackets) / float64(g.Packets); g.Packets < 1000 || g.Lost > 0 || share < 0.03 {
				t.Errorf("%d packets, %d of them asked for (%.3f), %d lost, want at least 1000, a share of 0.03 and none lost", g.Packets, g.NAKPackets, share, g.Lost)
			} else {
				t.Logf("%d packets, %d repaired, a share of %.4f asked for", g.Packets, g.Repaired, share)
			}
		})
	}
}

// cuttable is a leg that can be cut: it then drops what it receives.
type cuttable struct {
	transport.Transport
	cut atomic.Bool
}

func (c *cuttable) Poll(b *transport.Batch) error {
	err := c.Transport.Poll(b)
	if c.cut.Load() {
		for i := range b.Trains {
			c.Release(&b.Trains[i])
		}
		b.Trains = b.Trains[:0]
	}
	return err
}

// NewSender hides the sender's reading of replies, which would bypass the cut.
func (c *cuttable) NewSender(group int) (transport.Sender, error) {
	s, err := c.Transport.NewSender(group)
	return struct{ transport.Sender }{s}, err
}

// memLegs is a transport over two networks in memory, each of which can be cut.
func memLegs(t *testing.T) (*legs.Transport, []*cuttable) {
	t.Helper()
	var all []transport.Transport
	var cuts []*cuttable
	for i := range 2 {
		l, err := mem.Open(mem.Config{Name: fmt.Sprintf("%s_%d", t.Name(), i), PacketSize: 1024})
		if err != nil {
			t.Fatal(err)
		}
		cuts = append(cuts, &cuttable{Transport: l})
		all = append(all, cuts[i])
	}
	x, err := legs.New(all, []string{"A", "B"})
	if err != nil {
		t.Fatal(err)
	}
	return x, cuts
}

// Legs are cut and restored under load, one after the other: there is no gap and no duplicate, and events name the leg.
func TestLegIsCutUnderLoad(t *testing.T) {
	testenv.Slow(t)
	ctx := testContext(t)
	x, _ := memLegs(t)
	pubBus, err := Config{Logger: quiet, Silence: 10 * time.Second}.OpenTransport(x)
	if err != nil {
		t.Fatal(err)
	}
	defer pubBus.Close()
	all := &eventLog{}
	y, cuts := memLegs(t)
	subBus, err := Config{Logger: quiet, OnEvent: all.event, RecoveryDeadline: time.Minute, Silence: 10 * time.Second}.OpenTransport(y)
	if err != nil {
		t.Fatal(err)
	}
	defer subBus.Close()
	p, s := publisher(t, pubBus, "a.b"), subscribe(t, subBus, "a.b")
	wait(t, ctx, p, 1)
	var stop atomic.Bool
	sent := make(chan int)
	go func() {
		n := 0
		for ; !stop.Load(); n++ {
			if p.Publish(ctx, fmt.Append(nil, n)) != nil {
				break
			}
			if n%64 == 0 {
				time.Sleep(50 * time.Microsecond)
			}
		}
		p.Flush(ctx)
		sent <- n
	}()
	got := make(chan error, 1)
	var last atomic.Int64
	go func() {
		for i := 0; ; i++ {
			m, err := s.Next(ctx)
			if err != nil {
				got <- err
				return
			}
			if string(m.Data) != fmt.Sprint(i) {
				got <- fmt.Errorf("message %d is %q", i, m.Data)
				return
			}
			last.Store(int64(i))
		}
	}()
	await := func(what string, cond func() bool) {
		t.Helper()
		for !cond() {
			select {
			case err := <-got:
				t.Fatalf("waiting until %s: %v", what, err)
			case <-ctx.Done():
				t.Fatalf("never %s; events %v", what, all.all)
			case <-time.After(time.Millisecond):
			}
		}
	}
	for round, leg := range []int{1, 0} {
		cuts[leg].cut.Store(true)
		await("LegDown is emitted", func() bool { return len(all.of(events.LegDown)) == round+1 })
		cuts[leg].cut.Store(false)
		await("LegBack is emitted", func() bool { return len(all.of(events.LegBack)) == round+1 })
		for _, e := range []events.Event{all.of(events.LegDown)[round], all.of(events.LegBack)[round]} {
			if e.Leg != []string{"A", "B"}[leg] || e.Publisher != pubBus.ID() || e.For <= 0 {
				t.Errorf("event %+v, want leg %s of publisher %v and a duration", e, []string{"A", "B"}[leg], pubBus.ID())
			}
		}
	}
	stop.Store(true)
	n := <-sent
	await("everything has arrived", func() bool { return last.Load() == int64(n-1) })
	st := subBus.Stats()
	copies := uint64(0) // counted at the slower leg, which may always be the same
	for i, l := range st.Legs {
		if copies += l.Copies; l.Falls != 1 || l.Silent != 0 || l.Lost == 0 {
			t.Errorf("leg %d: statistics %+v, want 1 failure, no silent publisher and lost packets", i, l)
		}
	}
	if copies == 0 {
		t.Errorf("no leg brought a packet of the other: %+v", st.Legs)
	}
	for _, g := range st.Groups {
		if g.Lost > 0 {
			t.Errorf("%d packets are lost, want none", g.Lost)
		}
	}
}

// A subscriber that has any leg in common with a publisher receives its messages, whatever the order of the URLs, and
// ConfigDiffers reports if not all legs are the same. docs/protocol §23.8, §23.10.
func TestLegsInCommon(t *testing.T) {
	ctx := testContext(t)
	urls := pair(memURL, t)
	a, b, other := urls[0], urls[1], memURL(t)+"_c"
	for _, c := range []struct {
		pub, sub []string
		theirs   string // the publisher's legs in the subscriber's event
	}{
		{[]string{a, b}, []string{a}, "2 (1 shared)"},
		{[]string{a, b}, []string{b}, "2 (1 shared)"},
		{[]string{a}, []string{a, b}, "1 (1 shared)"},
		{[]string{b}, []string{a, b}, "1 (1 shared)"},
		{[]string{a, b}, []string{b, other}, "2 (1 shared)"},
		{[]string{a, b, other}, []string{other, b}, "3 (2 shared)"},
		{[]string{a, b}, []string{b, a}, ""},
	} {
		t.Run(fmt.Sprint(len(c.pub), len(c.sub)), func(t *testing.T) {
			reported := &eventLog{}
			pubBus, subBus := openLegs(t, Config{}, c.pub...), openLegs(t, Config{OnEvent: reported.event}, c.sub...)
			p, s := publisher(t, pubBus, "a.b"), subscribe(t, subBus, "a.b")
			wait(t, ctx, p, 1)
			for i := range 100 {
				publish(t, ctx, p, fmt.Sprint(i))
			}
			receiveNumbers(t, ctx, s, 100)
			var m *events.ConfigMismatchError
			if c.theirs != "" {
				reported.await(t, ctx, events.ConfigDiffers) // the event comes with another packet
			}
			all := reported.of(events.ConfigDiffers)
			if len(all) > 1 || len(all) > 0 != (c.theirs != "") {
				t.Fatalf("mismatches %v, want at most one, and one only if the configuration differs: %v", all, c.theirs != "")
			}
			if len(all) > 0 && (!errors.As(all[0].Err, &m) || m.Differences[0].Field != events.FieldLegs || m.Differences[0].Theirs != c.theirs || !m.Harmless()) {
				t.Errorf("reported %v, want %s", all[0].Err, c.theirs)
			}
			if n := len(reported.of(events.LegDown)); n > 0 {
				t.Errorf("%d LegDown events, want none", n)
			}
		})
	}
}

// Errors about invalid legs name the URL at fault. docs/protocol §23.1.
func TestBadLegs(t *testing.T) {
	a := memURL(t)
	for _, c := range []struct {
		urls []string
		says string
	}{
		{[]string{a, a}, "twice"},
		{[]string{a, "nonsense://x"}, "there is no transport"},
		{[]string{a + "_a?groups=4", a + "_b?groups=8"}, "same number"},
		{[]string{a + "_a?map=prefix:1", a + "_b?map=prefix:2"}, "another leg"},
		{[]string{a + "1", a + "2", a + "3", a + "4", a + "5"}, "more legs"},
	} {
		_, err := Open(context.Background(), c.urls[0], c.urls[1:]...)
		if !errors.Is(err, ErrURL) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("Open(%v): error %v, want %v with %q", c.urls, err, ErrURL, c.says)
		}
	}
}

// UDP and RoCE can be legs of one bus: packets lost on one arrive on the other.
func TestLegsOverUDPAndRoCE(t *testing.T) {
	ctx, urls := testContext(t), []string{udpURL(t), roceURL(t)}
	pubBus, subBus := openLegs(t, Config{}, urls...), openLegs(t, Config{Faults: "loss=0.2,seed=3"}, urls...)
	p, s := publisher(t, pubBus, "a.b"), subscribe(t, subBus, "a.b")
	wait(t, ctx, p, 1)
	const n = 2000
	if c := subBus.Capabilities(); c.Name != "udp+ud" {
		t.Errorf("capabilities %+v, want the name udp+ud", c)
	}
	fills := func() bool {
		return !slices.ContainsFunc(subBus.Stats().Legs, func(l stats.Leg) bool { return l.Packets == 0 || l.Lost == 0 || l.Filled == 0 })
	}
	defer func() { t.Logf("legs %+v", subBus.Stats().Legs) }()
	for again := true; again; again = !fills() { // on a busy host one leg may lag for long
		go func() {
			for i := range n {
				if p.Publish(ctx, fmt.Append(nil, i)) != nil || p.Flush(ctx) != nil {
					return
				}
			}
		}()
		receiveNumbers(t, ctx, s, n)
	}
}

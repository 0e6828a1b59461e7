package pubsub

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/legs"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/sealed/hostile"
)

var hostilePackets = flag.Int("hostile", 1_000_000, "number of hostile `packets` in TestHostile")

// A stream runs while an attacker that sees all packets sends as fast as possible: recorded packets and replies,
// changed, sent to other groups, by unicast and multicast, and replayed; packets of an earlier epoch of the
// publisher, of another key, of a revoked key, old ones, unsealed ones and garbage. None is accepted, and every
// message is delivered once, complete and in order. docs/protocol §27.1, §27.6, §27.7.
func TestHostile(t *testing.T) {
	testenv.Slow(t)
	const groups, epochs = 4, 2
	n := *hostilePackets
	if testing.Short() {
		n = min(n, 100_000)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+n/200_000)*time.Minute)
	defer cancel()
	network, replies := mem.NewNetwork(), new(captured)
	key, revoked := newKey(t), newKey(t)
	set, err := NewKeySet(key)
	if err != nil {
		t.Fatal(err)
	}
	open := func(name string) *Bus {
		m, err := mem.Open(mem.Config{Network: network, Groups: groups})
		if err != nil {
			t.Fatal(err)
		}
		b, err := Config{Name: name, Keys: StaticKeys(set), Logger: quiet, RecoveryDeadline: time.Minute, Silence: time.Minute}.OpenTransport(tappedTransport{m, replies})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	a := newAttacker(t, []*mem.Network{network}, groups, replies, newKey(t, key, revoked), revoked)
	subBus := open("subscriber")
	sub := subscribe(t, subBus, "x")
	earlier := a.recordEpoch(ctx, open("publisher"), sub)
	pubBus := open("publisher")
	for g := range groups { // the subscriber joins all groups, and the publisher one more
		subscribe(t, subBus, topicOf(subBus, g))
	}
	beside := topicOf(pubBus, (pubBus.Group("x")+1)%groups)
	subscribe(t, pubBus, beside)
	back := publisher(t, subBus, beside) // so that the attacker learns the subscriber's address, and sends replies there, too
	wait(t, ctx, back, 1)
	publish(t, ctx, back, "seen")
	pub := publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	var read atomic.Int64
	publishing, stop := context.WithCancel(ctx)
	go func() {
		for i := 0; publishing.Err() == nil; i++ {
			if err := pub.Publish(publishing, fmt.Appendf(nil, "message %d", i)); err != nil && publishing.Err() == nil {
				t.Error(err)
				return
			}
		}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			m, err := sub.Next(publishing)
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("message %d: error %v, want %v", i, err, context.Canceled)
				}
				return
			}
			if want := fmt.Sprintf("message %d", i); string(m.Data) != want {
				t.Errorf("delivered %q, want %q", m.Data, want)
				return
			}
			read.Store(int64(i) + 1)
		}
	}()
	for read.Load() < 1000 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	// rate is the number of messages read a second while f runs.
	rate := func(f func()) float64 {
		began, before := time.Now(), read.Load()
		f()
		return float64(read.Load()-before) / time.Since(began).Seconds()
	}
	undisturbed := rate(func() { time.Sleep(500 * time.Millisecond) })
	// A busy goroutine that sends nothing: the difference is the cost of the packets.
	spinning := rate(func() { spin(500 * time.Millisecond) })
	for a.Recorded() < 100 && ctx.Err() == nil {
		a.poll()
	}
	longAgo, err := hostile.Sealed(key, 20, 200, time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	a.Foreign = slices.Concat(a.Foreign, earlier, longAgo)
	began := time.Now()
	attacked := rate(func() { a.run(n) })
	took := time.Since(began)
	after := read.Load()
	for read.Load() < after+1000 && ctx.Err() == nil { // the stream continues
		time.Sleep(time.Millisecond)
	}
	stop()
	<-done
	if ctx.Err() != nil || read.Load() < after+1000 {
		t.Fatalf("the stream has stopped after %d messages", read.Load())
	}
	if again, repairs := subBus.Stats().Groups[subBus.Group("x")].Duplicates, pubBus.Stats().Publications[0].RepairsSent; again > repairs {
		t.Errorf("%d packets arrived twice, and %d repairs were sent: replayed packets are accepted", again, repairs)
	}
	t.Logf("%d hostile packets at %.0f/s, while %.0f messages/s were read, %.2f of the %.0f without an attack, and %.2f of the %.0f with a busy goroutine that sends nothing: %v",
		n, float64(n)/took.Seconds(), attacked, attacked/max(1, undisturbed), undisturbed, attacked/max(1, spinning), spinning, a.sent)
	for who, b := range map[string]*Bus{"subscriber": subBus, "publisher": pubBus} {
		st := b.Stats()
		t.Logf("packets refused by the %s: %+v", who, st.Seal)
		for _, g := range st.Groups {
			if g.Malformed+g.Foreign+g.Version+g.Damaged+g.Implausible+g.Stale != 0 || g.Receiver.Streams > epochs {
				t.Errorf("%s: a hostile packet was accepted: %+v", who, g.Receiver)
			}
		}
		for _, p := range st.Publications {
			// Packets recorded for the publisher's earlier epoch open, because this epoch has not received them, and are
			// refused as of another stream: they count as foreign.
			if p.Receivers > 1 || p.Malformed+p.NAKInvalid != 0 {
				t.Errorf("%s: a hostile packet was accepted: %+v", who, p.Sender)
			}
		}
		// Unicast packets of key holders open at every bus, once, and belong to no stream of that bus.
		if n := replies.count(); st.ForeignReplies == 0 || st.ForeignReplies > n {
			t.Errorf("%s: %d foreign replies, of %d, want at least 1", who, st.ForeignReplies, n)
		}
		if s := st.Seal; s.Forged == 0 || s.Replayed == 0 || s.UnknownKey == 0 || s.Open == 0 || s.Foreign == 0 {
			t.Errorf("%s: packets refused %+v, want some forged, replayed, open, foreign and of an unknown key", who, s)
		}
	}
}

// spin keeps a core busy for d.
func spin(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}

// topicOf returns a topic that maps to a group.
func topicOf(b *Bus, group int) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("topic.%d", i); b.Group(name) == group {
			return name
		}
	}
}

// Requests, replies and a stream run over two legs, while an attacker sees and sends any packet on both: packets of
// one leg on the other, replies to groups, and packets for groups by unicast. Each request has exactly its reply, and
// the stream is complete. docs/protocol §27.1, §27.6.
func TestHostileLegs(t *testing.T) {
	const groups = 4
	requests := 200
	if testing.Short() {
		requests = 20
	}
	ctx := testContext(t)
	networks, replies := []*mem.Network{mem.NewNetwork(), mem.NewNetwork()}, new(captured)
	key := newKey(t)
	set, err := NewKeySet(key)
	if err != nil {
		t.Fatal(err)
	}
	open := func() *Bus {
		var all []transport.Transport
		for _, n := range networks {
			m, err := mem.Open(mem.Config{Network: n, Groups: groups})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, tappedTransport{m, replies})
		}
		both, err := legs.New(all, []string{"mem://a", "mem://b"})
		if err != nil {
			t.Fatal(err)
		}
		b, err := Config{Keys: StaticKeys(set), Logger: quiet, RecoveryDeadline: time.Minute, Silence: time.Minute}.OpenTransport(both)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	subBus, pubBus := open(), open()
	responder, err := subBus.Handle("q", func(m Message, err error) {
		if err == nil && m.IsRequest() {
			m.Respond(append([]byte("reply to "), m.Data...))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer responder.Close()
	sub, pub := subscribe(t, subBus, "x"), publisher(t, pubBus, "x")
	wait(t, ctx, pub, 1)
	attacking, stop := context.WithCancel(ctx)
	a := newAttacker(t, networks, groups, replies, newKey(t, key))
	done := make(chan struct{})
	var runs atomic.Int64
	go func() {
		defer close(done)
		for attacking.Err() == nil {
			if a.Recorded() < 10 {
				a.poll()
				continue
			}
			a.run(100)
			runs.Add(1)
		}
	}()
	wait(t, ctx, publisher(t, pubBus, "q"), 1)
	asked := 0
	for ; asked < requests || runs.Load() < 20; asked++ {
		if err := pub.Publish(ctx, fmt.Appendf(nil, "message %d", asked)); err != nil {
			t.Fatal(err)
		}
		ask := fmt.Sprintf("request %d", asked)
		r, err := pubBus.Request(ctx, "q", []byte(ask))
		if err != nil || string(r.Data) != "reply to "+ask {
			t.Fatalf("reply to %s is %q, error %v, want \"reply to %s\"", ask, r.Data, err, ask)
		}
		want(t, ctx, sub, fmt.Sprintf("message %d", asked)) // read now: with a slow attacker unread messages would fill the window
	}
	stop()
	<-done
	t.Logf("hostile packets: %v", a.sent)
	for who, b := range map[string]*Bus{"subscriber": subBus, "publisher": pubBus} {
		eventually(t, ctx, who+": forged packets are refused", func() bool { return b.Stats().Seal.Forged > 0 }) // the last ones may be unread
		st := b.Stats()
		for _, g := range st.Groups {
			if g.Malformed+g.Foreign+g.Version+g.Damaged != 0 || g.Streams > 1 {
				t.Errorf("%s: a hostile packet was accepted: %+v", who, g.Receiver)
			}
		}
		for _, p := range st.Publications {
			if p.Receivers > 1 || p.Malformed+p.Foreign+p.NAKInvalid != 0 {
				t.Errorf("%s: a hostile packet was accepted: %+v", who, p.Sender)
			}
		}
		if n := replies.count(); st.ForeignReplies > n { // as in TestHostile
			t.Errorf("%s: %d foreign replies, of %d", who, st.ForeignReplies, n)
		}
	}
}

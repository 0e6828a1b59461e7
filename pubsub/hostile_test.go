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

var hostilePackets = flag.Int("hostile", 1_000_000, "hostile `packets` of TestHostile")

// A stream runs while somebody who sees all packets sends as fast as he can: what he has seen, to groups and as
// replies, changed, moved to other groups, to one bus and to all, and played back, packets of an earlier epoch of the
// publisher, of another key, of a revoked one, of long ago, open ones and garbage. None is believed, and all that was published is delivered once, whole
// and in order. docs/protocol §27.1, §27.6, §27.7.
func TestHostile(t *testing.T) {
	testenv.Slow(t)
	const groups, epochs = 4, 2
	n := *hostilePackets
	if testing.Short() {
		n = min(n, 100_000)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(5+n/200_000)*time.Minute)
	defer cancel()
	network, replies := mem.NewNetwork(), new(overheard)
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
		b, err := Config{Name: name, Keys: StaticKeys(set), Logger: quiet, RecoveryDeadline: time.Minute, Silence: time.Minute}.OpenTransport(ear{m, replies})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	a := newAttacker(t, []*mem.Network{network}, groups, replies, newKey(t, key, revoked), revoked)
	subBus := open("subscriber")
	sub := subscribe(t, subBus, "x")
	earlier := a.hearEpoch(ctx, open("publisher"), sub)
	pubBus := open("publisher")
	for g := range groups { // the subscriber has all groups, and the publisher one beside
		subscribe(t, subBus, topicOf(subBus, g))
	}
	beside := topicOf(pubBus, (pubBus.Group("x")+1)%groups)
	subscribe(t, pubBus, beside)
	back := publisher(t, subBus, beside) // so that the attacker sees where the subscriber is, and sends replies there, too
	wait(t, ctx, back, 1)
	if err := back.Publish(ctx, []byte("seen")); err != nil {
		t.Fatal(err)
	}
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
					t.Errorf("message %d: %v", i, err)
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
	// rate is how many messages a second are read while f runs.
	rate := func(f func()) float64 {
		began, before := time.Now(), read.Load()
		f()
		return float64(read.Load()-before) / time.Since(began).Seconds()
	}
	undisturbed := rate(func() { time.Sleep(500 * time.Millisecond) })
	// What takes a core and sends nothing: the rest is what the packets cost.
	spinning := rate(func() { spin(500 * time.Millisecond) })
	for a.Seen() < 100 && ctx.Err() == nil {
		a.look()
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
	for read.Load() < after+1000 && ctx.Err() == nil { // it goes on
		time.Sleep(time.Millisecond)
	}
	stop()
	<-done
	if ctx.Err() != nil || read.Load() < after+1000 {
		t.Fatalf("the stream stands still after %d messages", read.Load())
	}
	if again, repairs := subBus.Stats().Groups[subBus.Group("x")].Duplicates, pubBus.Stats().Publications[0].RepairsSent; again > repairs {
		t.Errorf("%d packets came twice, and %d repairs were sent: packets that were played back are taken", again, repairs)
	}
	t.Logf("%d hostile packets at %.0f/s, while %.0f messages/s were read, %.2f of the %.0f undisturbed, and %.2f of the %.0f beside as busy a goroutine that sends nothing: %v",
		n, float64(n)/took.Seconds(), attacked, attacked/max(1, undisturbed), undisturbed, attacked/max(1, spinning), spinning, a.sent)
	for who, b := range map[string]*Bus{"subscriber": subBus, "publisher": pubBus} {
		st := b.Stats()
		t.Logf("%s: %+v", who, st.Seal)
		for _, g := range st.Groups {
			if g.Malformed+g.Foreign+g.Version+g.Damaged+g.Implausible+g.Stale != 0 || g.Receiver.Streams > epochs {
				t.Errorf("%s: something hostile was taken: %+v", who, g.Receiver)
			}
		}
		for _, p := range st.Publications {
			// What was sent to the publisher's earlier epoch opens, since this one has not had it, and is refused as another
			// stream's: that counts as foreign.
			if p.Receivers > 1 || p.Malformed+p.NAKInvalid != 0 {
				t.Errorf("%s: something hostile was taken: %+v", who, p.Sender)
			}
		}
		// What others with the key have sent by unicast opens wherever it is sent, once, and is of no stream of that bus.
		if n := replies.count(); st.ForeignReplies == 0 || st.ForeignReplies > n {
			t.Errorf("%s: %d foreign replies, of the %d that there were", who, st.ForeignReplies, n)
		}
		if s := st.Seal; s.Forged == 0 || s.Replayed == 0 || s.UnknownKey == 0 || s.Open == 0 || s.Foreign == 0 {
			t.Errorf("%s: refused %+v", who, s)
		}
	}
}

// spin takes a core for a while.
func spin(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}

// topicOf is a topic of a group.
func topicOf(b *Bus, group int) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("topic.%d", i); b.Group(name) == group {
			return name
		}
	}
}

// Requests and replies, and a stream, over two legs, while somebody sees and sends all that he likes on both: on one leg what
// he has seen on the other, replies to groups and what was for groups as replies. Each request has its reply, exactly, and
// the stream is whole. docs/protocol §27.1, §27.6.
func TestHostileLegs(t *testing.T) {
	const groups = 4
	requests := 200
	if testing.Short() {
		requests = 20
	}
	ctx := testContext(t)
	networks, replies := []*mem.Network{mem.NewNetwork(), mem.NewNetwork()}, new(overheard)
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
			all = append(all, ear{m, replies})
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
			if a.Seen() < 10 {
				a.look()
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
			t.Fatalf("%s: %q, %v", ask, r.Data, err)
		}
		want(t, ctx, sub, fmt.Sprintf("message %d", asked)) // at once, or with a slow attacker the window is full of what nobody has read
	}
	stop()
	<-done
	t.Logf("hostile packets: %v", a.sent)
	for who, b := range map[string]*Bus{"subscriber": subBus, "publisher": pubBus} {
		st := b.Stats()
		for _, g := range st.Groups {
			if g.Malformed+g.Foreign+g.Version+g.Damaged != 0 || g.Streams > 1 {
				t.Errorf("%s: something hostile was taken: %+v", who, g.Receiver)
			}
		}
		for _, p := range st.Publications {
			if p.Receivers > 1 || p.Malformed+p.Foreign+p.NAKInvalid != 0 {
				t.Errorf("%s: something hostile was taken: %+v", who, p.Sender)
			}
		}
		if n := replies.count(); st.ForeignReplies > n || st.Seal.Forged == 0 { // as in TestHostile
			t.Errorf("%s: %d foreign replies, of the %d that there were, refused %+v", who, st.ForeignReplies, n, st.Seal)
		}
	}
}

package pubsub

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/sealed"
)

var hostilePackets = flag.Int("hostile", 1_000_000, "hostile `packets` of TestHostile")

// attacker sees all packets to groups, and sends what it likes, to groups and to who has sent
// something. It has a key of its own, and one that was revoked.
type attacker struct {
	t       *testing.T
	tr      transport.Transport
	senders []transport.Sender
	random  *rand.Rand
	seen    [][]byte // packets
	peers   []transport.Peer
	sealed  [][]byte // made with the other keys
	sent    map[string]int
}

func newAttacker(t *testing.T, n *mem.Network, groups int, other ...Key) *attacker {
	tr, err := mem.Open(mem.Config{Network: n, Groups: groups})
	if err != nil {
		t.Fatal(err)
	}
	a := &attacker{t: t, tr: tr, random: rand.New(rand.NewPCG(7, 7)), sent: make(map[string]int)}
	for g := range groups {
		s, err := tr.NewSender(g)
		if err != nil {
			t.Fatal(err)
		}
		a.senders = append(a.senders, s)
		if err := tr.Join(g); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range other {
		a.seal(k)
	}
	return a
}

// seal makes sealed packets with a key.
func (a *attacker) seal(k Key) {
	set, err := NewKeySet(k)
	if err != nil {
		a.t.Fatal(err)
	}
	var out bytes.Buffer
	inner, err := mem.Open(mem.Config{Network: mem.NewNetwork()})
	if err != nil {
		a.t.Fatal(err)
	}
	s, err := sealed.New(recorder{inner, &out}, sealed.Config{Keys: StaticKeys(set)})
	if err != nil {
		a.t.Fatal(err)
	}
	defer endTransport(s)
	tx, err := s.NewSender(0)
	if err != nil {
		a.t.Fatal(err)
	}
	for i := range 20 {
		out.Reset()
		p := append([]byte("Ff\x01\x01"), make([]byte, 100+i)...)
		if _, err := tx.Send(&transport.Outbound{Data: p, Stride: len(p), Count: 1, Lens: []uint16{uint16(len(p))}}); err != nil {
			a.t.Fatal(err)
		}
		a.sealed = append(a.sealed, bytes.Clone(out.Bytes()))
	}
}

// recorder keeps what is sent last.
type recorder struct {
	transport.Transport
	out *bytes.Buffer
}

func (r recorder) NewSender(group int) (transport.Sender, error) {
	tx, err := r.Transport.NewSender(group)
	return recordingSender{tx, r.out}, err
}

type recordingSender struct {
	transport.Sender
	out *bytes.Buffer
}

func (r recordingSender) Send(out *transport.Outbound) (int, error) {
	r.out.Write(out.Data[:out.Lens[0]])
	return r.Sender.Send(out)
}

// look takes in what is sent just now.
func (a *attacker) look() {
	b := transport.NewBatch(16)
	if err := a.tr.Poll(b); err != nil {
		a.t.Fatal(err)
	}
	for i := range b.Trains {
		tr := &b.Trains[i]
		if len(a.peers) < 4 {
			if p, err := a.tr.Retain(tr.From); err == nil {
				a.peers = append(a.peers, p)
			}
		}
		p := bytes.Clone(tr.Packet(a.random.IntN(tr.Count())))
		if len(p) <= sealed.Overhead || p[1] != 's' {
			// one of its own
		} else if len(a.seen) < 1000 {
			a.seen = append(a.seen, p)
		} else {
			a.seen[a.random.IntN(len(a.seen))] = p
		}
		a.tr.Release(tr)
	}
}

// packet makes a hostile packet, and says of what kind it is.
func (a *attacker) packet() (p []byte, kind string) {
	r := a.random
	p = bytes.Clone(a.seen[r.IntN(len(a.seen))])
	switch r.IntN(12) {
	case 0:
		return p, "played back"
	case 1:
		p[r.IntN(len(p))] ^= 1 << r.IntN(8)
		return p, "one bit changed"
	case 2:
		return p[:1+r.IntN(len(p)-1)], "cut"
	case 3:
		binary.LittleEndian.PutUint32(p[4:], r.Uint32())
		return p, "another counter"
	case 4:
		binary.LittleEndian.PutUint64(p[16:], r.Uint64())
		return p, "an invented salt"
	case 5:
		binary.LittleEndian.PutUint32(p[8:], r.Uint32())
		return p, "another key id"
	case 6:
		binary.LittleEndian.PutUint64(p[32:], r.Uint64())
		return p, "another train"
	case 7:
		q := a.seen[r.IntN(len(a.seen))]
		return append(p[:40:40], q[40:]...), "header of one, content of another"
	case 8:
		return bytes.Clone(a.sealed[r.IntN(len(a.sealed))]), "another key"
	case 9:
		return append([]byte("Ff\x01"), p[3:]...), "open"
	case 10:
		for i := range p {
			p[i] = byte(r.Uint32())
		}
		return p, "garbage"
	}
	return append(p, byte(r.Uint32())), "longer"
}

// run sends n hostile packets.
func (a *attacker) run(n int) {
	var out transport.Outbound
	for i := range n {
		if i%50 == 0 {
			a.look()
		}
		p, kind := a.packet()
		a.sent[kind]++
		if len(a.peers) > 0 && a.random.IntN(4) == 0 {
			a.tr.Reply(a.peers[a.random.IntN(len(a.peers))], p) // what was for a group, by unicast
			continue
		}
		out = transport.Outbound{Data: p, Stride: len(p), Count: 1, Lens: []uint16{uint16(len(p))}}
		if _, err := a.senders[a.random.IntN(len(a.senders))].Send(&out); err != nil { // in this group or another
			a.t.Error(err)
			return
		}
	}
}

// A stream runs while somebody who sees all packets sends as fast as he can: what he has seen, changed,
// moved to other groups and played back, packets of another key, of a revoked one, open ones and
// garbage. None reaches what is above the sealing, and all that was published is delivered once, whole
// and in order. docs/protocol.md §27.1, §27.6, §27.7.
func TestHostile(t *testing.T) {
	const groups = 4
	n := *hostilePackets
	if testing.Short() {
		n = min(n, 100_000)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(2+n/200_000)*time.Minute)
	defer cancel()
	network := mem.NewNetwork()
	key, revoked := newKey(t), newKey(t)
	set, err := NewKeySet(key)
	if err != nil {
		t.Fatal(err)
	}
	open := func() *Bus {
		m, err := mem.Open(mem.Config{Network: network, Groups: groups})
		if err != nil {
			t.Fatal(err)
		}
		b, err := Config{Keys: StaticKeys(set), Logger: quiet, RecoveryDeadline: time.Minute, Silence: time.Minute}.OpenTransport(m)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	subBus, pubBus := open(), open()
	sub := subscribe(t, subBus, "x")
	for g := range groups { // the subscriber has all groups, and the publisher one beside
		subscribe(t, subBus, topicOf(subBus, g))
	}
	subscribe(t, pubBus, topicOf(pubBus, (pubBus.Group("x")+1)%groups))
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
	a := newAttacker(t, network, groups, newKey(t, key, revoked), revoked)
	defer endTransport(a.tr)
	for len(a.seen) < 100 && ctx.Err() == nil {
		a.look()
	}
	began, before := time.Now(), read.Load()
	a.run(n)
	rate := float64(read.Load()-before) / time.Since(began).Seconds()
	after := read.Load()
	for read.Load() < after+1000 && ctx.Err() == nil { // it goes on
		time.Sleep(time.Millisecond)
	}
	stop()
	<-done
	if ctx.Err() != nil || read.Load() < after+1000 {
		t.Fatalf("the stream stands still after %d messages", read.Load())
	}
	t.Logf("%d hostile packets at %.0f/s, while %.0f messages/s were read: %v", n, float64(n)/time.Since(began).Seconds(), rate, a.sent)
	for who, b := range map[string]*Bus{"subscriber": subBus, "publisher": pubBus} {
		st := b.Stats()
		t.Logf("%s: %+v", who, st.Seal)
		for _, g := range st.Groups {
			if g.Malformed+g.Foreign+g.Version+g.Damaged+g.Implausible+g.Stale != 0 || g.Streams > 1 {
				t.Errorf("%s: something hostile was taken: %+v", who, g.ReceiverStats)
			}
		}
		for _, p := range st.Publications {
			if p.Receivers > 1 || p.Malformed+p.Foreign+p.NAKInvalid != 0 {
				t.Errorf("%s: something hostile was taken: %+v", who, p.SenderStats)
			}
		}
		if s := st.Seal; st.ForeignReplies != 0 || s.Forged == 0 || who == "subscriber" && s.Replayed == 0 || s.UnknownKey == 0 || s.Open == 0 || s.Foreign == 0 {
			t.Errorf("%s: %d foreign replies, refused %+v", who, st.ForeignReplies, s)
		}
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

package pubsub

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/sealed/hostile"
)

// attacker sees all packets, to groups and to one bus, and sends any packet, to groups and to every bus that has sent
// something. It has its own key, and one that was revoked.
type attacker struct {
	t       *testing.T
	trs     []transport.Transport // one on each network
	senders []transport.Sender
	hostile.Maker
	peers []attacked
	sent  map[string]int // packets
	bytes uint64         // sent
}

// attacked is a bus that the attacker has received packets from.
type attacked struct {
	tr   transport.Transport
	peer transport.Peer
}

// captured holds packets that buses send to one bus: replies, statuses and NAKs.
type captured struct {
	mu      sync.Mutex
	packets [][]byte // under mu: at most the last thousand
	next    int      // under mu
	n       uint64   // under mu: number of packets so far
}

func (o *captured) note(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n++
	if len(o.packets) < 1000 {
		o.packets = append(o.packets, bytes.Clone(p))
		return
	}
	o.packets[o.next] = append(o.packets[o.next][:0], p...)
	o.next = (o.next + 1) % len(o.packets)
}

// count returns the number of packets so far.
func (o *captured) count() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n
}

// any returns a random packet, or nil.
func (o *captured) any(random *rand.Rand) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.packets) == 0 {
		return nil
	}
	return bytes.Clone(o.packets[random.IntN(len(o.packets))])
}

// tappedTransport is a transport that records the replies sent on it.
type tappedTransport struct {
	transport.Transport
	replies *captured
}

func (e tappedTransport) Reply(p transport.Peer, packet []byte) error {
	e.replies.note(packet)
	return e.Transport.Reply(p, packet)
}

func newAttacker(t *testing.T, networks []*mem.Network, groups int, replies *captured, other ...Key) *attacker {
	a := &attacker{t: t, sent: make(map[string]int)}
	a.Random = rand.New(rand.NewPCG(7, 7))
	a.Reply = func() []byte { return replies.any(a.Random) }
	for _, n := range networks {
		tr, err := mem.Open(mem.Config{Network: n, Groups: groups})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { endTransport(tr) })
		a.trs = append(a.trs, tr)
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
	}
	for _, k := range other {
		made, err := hostile.Sealed(k, 20, 200, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		a.Foreign = append(a.Foreign, made...)
	}
	return a
}

// poll receives the packets that have arrived, without waiting.
func (a *attacker) poll() {
	for _, from := range a.trs {
		a.pollOne(from)
	}
}

func (a *attacker) pollOne(from transport.Transport) {
	b := transport.NewBatch(16)
	if err := from.Poll(b); err != nil {
		a.t.Error(err)
		return
	}
	for i := range b.Trains {
		tr := &b.Trains[i]
		if len(a.peers) < 4*len(a.trs) {
			if p, err := from.Retain(tr.From); err == nil && !slices.Contains(a.peers, attacked{from, p}) {
				a.peers = append(a.peers, attacked{from, p})
			}
		}
		a.See(tr.Packet(a.Random.IntN(tr.Count())))
		from.Release(tr)
	}
}

// recordEpoch makes a bus publish some messages to a subscription on topic x, and close. It returns the packets.
func (a *attacker) recordEpoch(ctx context.Context, bus *Bus, sub *Subscription) (packets [][]byte) {
	const messages = 50
	pub := publisher(a.t, bus, "x")
	wait(a.t, ctx, pub, 1)
	b := transport.NewBatch(16)
	for i := range messages {
		want := fmt.Sprintf("earlier %d", i)
		if err := pub.Publish(ctx, []byte(want)); err != nil {
			a.t.Fatal(err)
		}
		if m, err := sub.Next(ctx); err != nil || string(m.Data) != want {
			a.t.Fatalf("message %q, error %v, want %q", m.Data, err, want)
		}
	}
	if err := bus.Close(); err != nil {
		a.t.Fatal(err)
	}
	for again := true; again; again = len(b.Trains) > 0 { // until no packet of that bus is left
		if err := a.trs[0].Poll(b); err != nil {
			a.t.Fatal(err)
		}
		for i := range b.Trains {
			for n := range b.Trains[i].Count() {
				packets = append(packets, bytes.Clone(b.Trains[i].Packet(n)))
			}
			a.trs[0].Release(&b.Trains[i])
		}
	}
	if len(packets) < messages {
		a.t.Fatalf("%d packets were received, want at least one for each of %d messages", len(packets), messages)
	}
	return packets
}

// run sends n hostile packets.
func (a *attacker) run(n int) {
	var out transport.Outbound
	for i := range n {
		if i%50 == 0 {
			a.poll()
		}
		p, kind := a.Packet()
		a.sent[kind]++
		a.bytes += uint64(len(p))
		if len(a.peers) > 0 && a.Random.IntN(4) == 0 {
			to := a.peers[a.Random.IntN(len(a.peers))]
			to.tr.Reply(to.peer, p) // a packet for a group, by unicast
			continue
		}
		out = transport.Outbound{Data: p, Stride: len(p), Count: 1, Lens: []uint16{uint16(len(p))}}
		if _, err := a.senders[a.Random.IntN(len(a.senders))].Send(&out); err != nil { // in this group or another
			a.t.Error(err)
			return
		}
	}
}

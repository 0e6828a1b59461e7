package pubsub

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/sealed"
)

// attacker sees all packets, to groups and to one bus, and sends what it likes, to groups and to who
// has sent something. It has a key of its own, and one that was revoked.
type attacker struct {
	t       *testing.T
	trs     []transport.Transport // one on each network
	senders []transport.Sender
	random  *rand.Rand
	seen    [][]byte // packets to groups
	replies *overheard
	peers   []attacked
	sealed  [][]byte // made with the other keys
	sent    map[string]int
}

// attacked is a bus, where the attacker has heard it.
type attacked struct {
	tr   transport.Transport
	peer transport.Peer
}

// overheard is what buses send to one bus: replies, statuses, and requests for repairs.
type overheard struct {
	mu   sync.Mutex
	some [][]byte // under mu: the last thousand
	next int      // under mu
}

func (o *overheard) note(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.some) < 1000 {
		o.some = append(o.some, bytes.Clone(p))
		return
	}
	o.some[o.next] = append(o.some[o.next][:0], p...)
	o.next = (o.next + 1) % len(o.some)
}

// any returns one of them, or nil.
func (o *overheard) any(random *rand.Rand) []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.some) == 0 {
		return nil
	}
	return bytes.Clone(o.some[random.IntN(len(o.some))])
}

// ear is a transport at which somebody listens.
type ear struct {
	transport.Transport
	heard *overheard
}

func (e ear) Reply(p transport.Peer, packet []byte) error {
	e.heard.note(packet)
	return e.Transport.Reply(p, packet)
}

func newAttacker(t *testing.T, networks []*mem.Network, groups int, replies *overheard, other ...Key) *attacker {
	a := &attacker{t: t, replies: replies, random: rand.New(rand.NewPCG(7, 7)), sent: make(map[string]int)}
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
	for _, from := range a.trs {
		a.lookAt(from)
	}
}

func (a *attacker) lookAt(from transport.Transport) {
	b := transport.NewBatch(16)
	if err := from.Poll(b); err != nil {
		a.t.Error(err)
		return
	}
	for i := range b.Trains {
		tr := &b.Trains[i]
		if len(a.peers) < 4*len(a.trs) {
			if p, err := from.Retain(tr.From); err == nil {
				a.peers = append(a.peers, attacked{from, p})
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
		from.Release(tr)
	}
}

// packet makes a hostile packet, and says of what kind it is.
func (a *attacker) packet() (p []byte, kind string) {
	r := a.random
	p = bytes.Clone(a.seen[r.IntN(len(a.seen))])
	switch r.IntN(15) {
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
	case 11, 12, 13:
		q := a.replies.any(r)
		if q == nil {
			return p, "played back"
		}
		switch r.IntN(3) {
		case 0:
			q[r.IntN(len(q))] ^= 1 << r.IntN(8)
			return q, "one bit of a reply changed"
		case 1:
			return append(q[:40:40], p[40:]...), "header of a reply, content of another"
		}
		return q, "a reply played back"
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
			to := a.peers[a.random.IntN(len(a.peers))]
			to.tr.Reply(to.peer, p) // what was for a group, by unicast
			continue
		}
		out = transport.Outbound{Data: p, Stride: len(p), Count: 1, Lens: []uint16{uint16(len(p))}}
		if _, err := a.senders[a.random.IntN(len(a.senders))].Send(&out); err != nil { // in this group or another
			a.t.Error(err)
			return
		}
	}
}

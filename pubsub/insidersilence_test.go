package pubsub

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
)

// sealing seals packets as an insider with the group's key can: in the name of any sender, real or invented, with any
// counter (docs/protocol §27.2, §27.4).
type sealing struct {
	t   *testing.T
	key Key
}

func (s sealing) secret(salt []byte, info string) []byte {
	secret, err := hkdf.Key(sha256.New, s.key.Secret[:], salt, info, 32)
	if err != nil {
		s.t.Fatal(err)
	}
	return secret
}

// cipher is the AEAD of a sender, derived from the header of one of its packets.
func (s sealing) cipher(head []byte, index uint32) cipher.AEAD {
	salt := binary.LittleEndian.AppendUint32(bytes.Clone(head[16:28]), index)
	block, err := aes.NewCipher(s.secret(salt, "fanfare sealed 1 packets"))
	if err != nil {
		s.t.Fatal(err)
	}
	g, err := cipher.NewGCM(block)
	if err != nil {
		s.t.Fatal(err)
	}
	return g
}

func nonceOf(head []byte) []byte { return append(bytes.Clone(head[32:40]), head[4:8]...) }

// open returns the content of a packet to a group.
func (s sealing) open(p []byte, index uint32) []byte {
	in, err := s.cipher(p, index).Open(nil, nonceOf(p), p[40:], p[:40])
	if err != nil {
		s.t.Fatal(err)
	}
	return in
}

// as seals content in the name of the sender of a packet.
func (s sealing) as(p []byte, index, counter uint32, content []byte) []byte {
	head := bytes.Clone(p[:40])
	binary.LittleEndian.PutUint32(head[4:], counter)
	rand.Read(head[32:40])
	return s.cipher(head, index).Seal(head, nonceOf(head), content, head)
}

// sender is the header of an invented sender.
func (s sealing) sender(index uint32) []byte {
	head := make([]byte, 40)
	copy(head, "Fs\x01")
	binary.LittleEndian.PutUint32(head[8:], uint32(s.key.ID))
	binary.LittleEndian.PutUint32(head[12:], uint32(time.Now().Unix()))
	rand.Read(head[16:28])
	block, err := aes.NewCipher(s.secret(nil, "fanfare sealed 1 mark"))
	if err != nil {
		s.t.Fatal(err)
	}
	var b [16]byte
	binary.LittleEndian.PutUint32(b[copy(b[:], head[16:28]):], index)
	block.Encrypt(b[:], b[:])
	copy(head[28:32], b[:4])
	return head
}

// An insider cannot silence a publisher that signs: neither by packets in its name with high counters, with forged or
// replayed content, nor by as many invented senders as are remembered; neither a running nor a new publisher, nor at
// a running or a new subscriber. A publisher that does not sign is received again some time after one such packet.
// docs/protocol §27.6, §27.9, §29.6.
func TestInsiderSilencesNoPublisher(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	for _, c := range []struct {
		how   string
		signs bool
	}{{"one packet", false}, {"one packet", true}, {"packets", true}, {"replayed content", true}, {"senders", false}, {"senders", true}} {
		t.Run(fmt.Sprintf("%s, signed %v", c.how, c.signs), func(t *testing.T) {
			if c.how == "senders" && testing.Short() {
				t.Skip("it takes some seconds: run it without -short")
			}
			testSilence(t, c.how, c.signs)
		})
	}
}

func testSilence(t *testing.T, how string, signs bool) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	network, key, s := mem.NewNetwork(), newKey(t), sealing{t: t}
	set, err := NewKeySet(key)
	if err != nil {
		t.Fatal(err)
	}
	s.key = key
	join := func() transport.Transport {
		m, err := mem.Open(mem.Config{Network: network, Groups: 1})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	open := func(c Config) *Bus {
		c.Logger, c.Keys, c.RecoveryDeadline, c.Silence = quiet, StaticKeys(set), time.Minute, time.Minute
		b, err := c.OpenTransport(join())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	var sub, pub Config
	if signs {
		ours := signingKey(t)
		pub.Sign = ours
		sub.Trust = trust(t, trustLine("md.>", ours))
	}
	subBus := open(sub)
	first := subscribe(t, subBus, "md.x")
	x := newInsider(t, network, nil, signingKey(t))
	t.Cleanup(func() { endTransport(x.tr) })
	send := func(p []byte) {
		if _, err := x.plain.Send(&transport.Outbound{Data: p, Stride: len(p), Count: 1, Lens: []uint16{uint16(len(p))}}); err != nil {
			t.Fatal(err)
		}
	}
	if how == "senders" {
		for i := range 20_000 {
			if send(s.as(s.sender(0), 0, 0, []byte("x"))); i%20 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	}
	p := publisher(t, open(pub), "md.x")
	wait(t, ctx, p, 1)
	var seen [][]byte
	overhear := func() {
		b := transport.NewBatch(16)
		if err := x.tr.Poll(b); err != nil {
			t.Fatal(err)
		}
		for i := range b.Trains {
			if q := b.Trains[i].Packet(0); len(q) > 56 && q[1] == 's' {
				seen = append(seen, bytes.Clone(q))
			}
			x.tr.Release(&b.Trains[i])
		}
	}
	forge := func() {
		from := seen[len(seen)-1]
		switch how {
		case "one packet":
			send(s.as(from, 0, 1<<32-10, []byte("x")))
		case "packets":
			for i := range uint32(200) {
				send(s.as(from, 0, binary.LittleEndian.Uint32(from[4:])+1+400*i, []byte("x")))
				send(s.as(from, 0, 1<<32-1000+i, []byte("x")))
			}
		case "replayed content":
			for _, q := range seen {
				send(s.as(from, 0, 1<<32-1000+uint32(len(seen)), s.open(q, 0)))
				send(s.as(s.sender(0), 0, 0, s.open(q, 0)))
			}
		}
	}
	eventually(t, ctx, "the insider has seen some", func() bool { overhear(); return len(seen) > 0 })
	forge()
	var second *Subscription
	for i := range 40 {
		if i == 20 {
			subs := open(sub)
			second = subscribe(t, subs, "md.x")
			if seen = seen[max(0, len(seen)-50):]; how != "one packet" {
				forge() // at a subscriber that does not know the publisher yet
			}
			wait(t, ctx, p, 2)
		}
		if err := p.Publish(ctx, fmt.Appendf(nil, "message %d", i)); err != nil {
			t.Fatal(err)
		}
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		overhear()
	}
	for from, sub := range map[int]*Subscription{0: first, 20: second} {
		for i := from; i < 40; i++ {
			m, err := sub.Next(ctx)
			if n := 0; i == 20 && from == 20 && how == "replayed content" {
				// The insider can choose where the stream begins, among packets sent before (docs/security.md).
				if _, err := fmt.Sscanf(string(m.Data), "message %d", &n); err == nil && n < i {
					i = n
				}
			}
			if err != nil || string(m.Data) != fmt.Sprintf("message %d", i) {
				t.Fatalf("%q, %v, want message %d; %+v", m.Data, err, i, subBus.Stats().Seal)
			}
		}
	}
}

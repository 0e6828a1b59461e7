package signed

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
)

// fabric is a transport that keeps sent packets.
type fabric struct {
	transport.Transport
	caps      transport.Capabilities
	sent      [][]byte
	remaining int // packets that Send still accepts; negative: all
}

func newFabric() *fabric {
	return &fabric{caps: transport.Capabilities{MaxPacket: 1472, PacketSize: 1472, MaxTrain: 64, MaxTrainBytes: 64 << 10}, remaining: -1}
}

func (f *fabric) Capabilities() transport.Capabilities            { return f.caps }
func (f *fabric) Alloc(bytes int) ([]byte, error)                 { return make([]byte, bytes), nil }
func (f *fabric) Free([]byte)                                     {}
func (f *fabric) NewSender(group int) (transport.Sender, error)   { return &fabricSender{f: f}, nil }
func (s *fabricSender) Completed() uint64                         { return s.accepted }
func (s *fabricSender) Close() error                              { return nil }
func (f *fabric) sender(t testing.TB, s *Signer) transport.Sender { return must(t)(s.NewSender(f, 3)) }

type fabricSender struct {
	f        *fabric
	accepted uint64
}

func (s *fabricSender) Send(out *transport.Outbound) (int, error) {
	for i := range out.Count {
		if s.f.remaining == 0 {
			return i, transport.ErrBusy
		}
		s.f.remaining--
		s.accepted++
		if s.f.sent != nil {
			s.f.sent = append(s.f.sent, bytes.Clone(out.Data[i*out.Stride:][:out.Lens[i]]))
		}
	}
	return out.Count, nil
}

func must(t testing.TB) func(transport.Sender, error) transport.Sender {
	return func(s transport.Sender, err error) transport.Sender {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

// testKey returns a key derived from a number.
func testKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

// testTrust trusts the keys of these numbers, each on all topics.
func testTrust(t testing.TB, numbers ...byte) *Trust {
	t.Helper()
	var grants []Grant
	for _, n := range numbers {
		grants = append(grants, Grant{">", publicOf(testKey(n))})
	}
	set, err := NewTrust(grants...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// changing is a Provider with a Trust that a test can change.
type changing struct{ set *Trust }

func (c *changing) Trust() *Trust { return c.set }

// clock is a clock that a test advances.
type clock struct{ now time.Time }

func newClock() *clock                { return &clock{time.Unix(1_795_000_000, 0)} }
func (c *clock) Now() time.Time       { return c.now }
func (c *clock) add(by time.Duration) { c.now = c.now.Add(by) }

// counted reads as bytes 1, 2, 3 … …
type counted struct{ n byte }

func (c *counted) Read(p []byte) (int, error) {
	for i := range p {
		c.n++
		p[i] = c.n
	}
	return len(p), nil
}

// Offsets in the header of a packet.
const atTag, atPublisher, atEpoch = 8, 16, 24

// content returns a packet of a stream, with n bytes after its header.
func content(publisher, epoch events.ID, n int) []byte {
	b := make([]byte, wire.HeaderLen+n)
	copy(b, "Ff\x01\x01")
	binary.LittleEndian.PutUint32(b[atTag:], 0xabcd)
	binary.LittleEndian.PutUint64(b[atPublisher:], uint64(publisher))
	binary.LittleEndian.PutUint64(b[atEpoch:], uint64(epoch))
	for i := range n {
		b[wire.HeaderLen+i] = byte(i * 7)
	}
	return b
}

// outbound returns a train of packets. Only the last may be shorter.
func outbound(packets ...[]byte) *transport.Outbound {
	out := &transport.Outbound{Stride: len(packets[0]), Count: len(packets)}
	for _, p := range packets {
		out.Data = append(out.Data, p...)
		out.Lens = append(out.Lens, uint16(len(p)))
	}
	return out
}

// rig is a publisher with key 1, and its clock.
type rig struct {
	*clock
	f  *fabric
	tx transport.Sender
	id events.ID
}

func newRig(t testing.TB) *rig {
	t.Helper()
	c, f := newClock(), newFabric()
	s, err := NewSigner(testKey(1), new(counted), c.Now)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{c, f, f.sender(t, s), PublisherID(testKey(1), 7)}
}

// train sends a train of n packets, and returns the signed packets.
func (r *rig) train(t testing.TB, n int) [][]byte {
	t.Helper()
	var packets [][]byte
	for i := range n {
		packets = append(packets, content(r.id, 5, 100+i/(n-i))) // the last is longer
		packets[i] = packets[i][:wire.HeaderLen+100]
		packets[i][wire.HeaderLen] = byte(i)
	}
	packets[n-1] = packets[n-1][:wire.HeaderLen+1+n%90]
	return r.send(t, packets...)
}

func (r *rig) send(t testing.TB, packets ...[]byte) [][]byte {
	t.Helper()
	r.f.sent = [][]byte{}
	if n, err := r.tx.Send(outbound(packets...)); n != len(packets) || err != nil {
		t.Fatalf("%d packets sent, error %v, want %d", n, err, len(packets))
	}
	return r.f.sent
}

// verifier returns a Verifier at the time of the rig's clock that trusts key 1.
func (r *rig) verifier(t testing.TB) *Verifier {
	v := NewVerifier(Static{testTrust(t, 1)})
	v.Begin(r.now, 0)
	return v
}

// is fails the test if the verdict of a packet differs.
func is(t testing.TB, what string, v *Verifier, b []byte, want Verdict) {
	t.Helper()
	if _, got := v.Check(b, 0); got != want {
		t.Errorf("%s: verdict %d, want %d", what, got, want)
	}
}

package pubsub

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/mem"
	"github.com/fanfaremq/fanfare/transport/sealed"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// signingKey returns a random signing key.
func signingKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// trustLine is a line of a trust file.
func trustLine(topics string, key ed25519.PrivateKey) string {
	return topics + " " + signed.Format(key.Public().(ed25519.PublicKey)) + "\n"
}

// trusting is a TrustProvider that a test changes.
type trusting struct{ set atomic.Pointer[TrustSet] }

func (x *trusting) Trust() *TrustSet { return x.set.Load() }

// use sets the trust to the lines of a trust file.
func (x *trusting) use(t testing.TB, lines ...string) {
	t.Helper()
	set, err := signed.ParseTrust([]byte(strings.Join(lines, "")))
	if err != nil {
		t.Fatal(err)
	}
	x.set.Store(set)
}

func trust(t testing.TB, lines ...string) *trusting {
	t.Helper()
	x := new(trusting)
	x.use(t, lines...)
	return x
}

// eventually waits until is returns true.
func eventually(t *testing.T, ctx context.Context, what string, is func() bool) {
	t.Helper()
	for !is() {
		if ctx.Err() != nil {
			t.Fatalf("timeout waiting until %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// Signed messages arrive, complete and in order, although packets are lost, repeated and reordered: with files, over
// every fabric, sealed and open, at subscribers with and without trust. docs/protocol §29.1, §29.5, §29.9.
func TestSigned(t *testing.T) {
	n := fewer(10_000)
	eachFabric(t, func(t *testing.T, url string) {
		ctx := testContext(t)
		dir := t.TempDir()
		key, err := signed.CreateKey(filepath.Join(dir, "desk"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "trust"), []byte(trustLine("md.>", key)), 0o600); err != nil {
			t.Fatal(err)
		}
		url = withKeys(url, keyFile(t, newKey(t)))
		lossy := Config{Faults: "loss=0.05,dup=0.02,reorder=0.02,seed=7"}
		pubBus := openBus(t, lossy, url+"&sign="+filepath.Join(dir, "desk"))
		subBus := openBus(t, lossy, url+"&trust="+filepath.Join(dir, "trust"))
		anyBus := openBus(t, lossy, url)
		sub, any := subscribe(t, subBus, "md.x"), subscribe(t, anyBus, "md.x")
		pub := publisher(t, pubBus, "md.x")
		wait(t, ctx, pub, 2)
		go publishAll(t, ctx, pub, n)
		done := make(chan struct{})
		go func() {
			defer close(done)
			expectAll(t, ctx, any, n)
		}()
		expectAll(t, ctx, sub, n)
		<-done
		st := subBus.Stats()
		if s := st.Sign; s.Unsigned+s.Malformed+s.Untrusted+s.Forged+s.Stale+s.Deferred != 0 || s.Streams == 0 || st.RefusedMessages != 0 {
			t.Errorf("refused without an attacker: packets %+v, %d messages, want none", s, st.RefusedMessages)
		}
	})
}

// Messages on a topic for which their key is not trusted are counted and reported once, and are no gap; its messages
// on other topics are delivered. The same holds for subscriptions, patterns and handlers. docs/protocol §29.8.
func TestUntrustedTopic(t *testing.T) {
	ctx := testContext(t)
	ours, others := signingKey(t), signingKey(t)
	trusted := trust(t, trustLine("md.ours.>", ours), trustLine("md.others.>", others))
	url := memURL(t)
	var reported atomic.Int64
	subBus := openBus(t, Config{Trust: trusted, OnEvent: func(e events.Event) {
		var err *events.FaultError
		if errors.As(e.Err, &err) && err.Fault == events.FaultTopic && err.Topic == "md.ours.x" {
			reported.Add(1)
		}
	}}, url)
	ourBus, otherBus := openBus(t, Config{Sign: ours}, url), openBus(t, Config{Sign: others}, url)
	sub, pattern := subscribe(t, subBus, "md.ours.x"), subscribe(t, subBus, "md.>")
	handled := make(chan string, 1000)
	if _, err := subBus.Handle("md.>", func(m Message, err error) {
		if err != nil {
			t.Error(err)
			return
		}
		handled <- string(m.Data)
	}); err != nil {
		t.Fatal(err)
	}
	good, forged, right := publisher(t, ourBus, "md.ours.x"), publisher(t, otherBus, "md.ours.x"), publisher(t, otherBus, "md.others.x")
	for _, p := range []*Publisher{good, forged, right} {
		wait(t, ctx, p, 1)
	}
	const n = 200
	for i := range n {
		for p, text := range map[*Publisher]string{forged: "forged", good: "good", right: "right"} {
			if err := p.Publish(ctx, fmt.Appendf(nil, "%s %d", text, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := forged.Publish(ctx, make([]byte, 5000)); err != nil {
		t.Fatal(err)
	}
	expect := func(kinds int, next func() (string, error)) {
		t.Helper()
		count := map[string]int{}
		for range kinds * n {
			text, err := next()
			if err != nil {
				t.Fatal(err)
			}
			kind, number, _ := strings.Cut(text, " ")
			if number != fmt.Sprint(count[kind]) || kind == "forged" {
				t.Fatalf("delivered %q, want the next genuine message", text)
			}
			count[kind]++
		}
	}
	for kinds, s := range map[int]*Subscription{1: sub, 2: pattern} {
		expect(kinds, func() (string, error) {
			m, err := s.Next(ctx)
			return string(m.Data), err
		})
	}
	expect(2, func() (string, error) { return <-handled, nil })
	eventually(t, ctx, "all refused messages are counted", func() bool {
		nothing(t, sub) // reads the refused messages
		nothing(t, pattern)
		return subBus.Stats().RefusedMessages == 3*(n+1)
	})
	eventually(t, ctx, "it is reported", func() bool { return reported.Load() == 1 })
}

// insider is an attacker with the group's key and a signing key that is trusted for other topics. It sees all
// packets, and sends any packet.
type insider struct {
	t      *testing.T
	tr     transport.Transport
	plain  transport.Sender
	signs  transport.Sender
	random *mrand.Rand
	seen   [][]byte
	sent   map[string]int
}

func newInsider(t *testing.T, n *mem.Network, set *KeySet, key ed25519.PrivateKey) *insider {
	var tr transport.Transport
	tr, err := mem.Open(mem.Config{Network: n, Groups: 1})
	if err == nil && set != nil {
		tr, err = sealed.New(tr, sealed.Config{Keys: StaticKeys(set)})
	}
	if err != nil {
		t.Fatal(err)
	}
	signer, err := signed.NewSigner(key, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := &insider{t: t, tr: tr, random: mrand.New(mrand.NewPCG(3, 3)), sent: make(map[string]int)}
	if x.plain, err = tr.NewSender(0); err == nil {
		x.signs, err = signer.NewSender(tr, 0)
	}
	if err == nil {
		err = tr.Join(0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// poll records the packets that publishers have sent.
func (x *insider) poll() {
	b := transport.NewBatch(16)
	if err := x.tr.Poll(b); err != nil {
		x.t.Fatal(err)
	}
	for i := range b.Trains {
		tr := &b.Trains[i]
		for k := range tr.Count() {
			if p := tr.Packet(k); wire.IsSigned(p) {
				if len(x.seen) < 2000 {
					x.seen = append(x.seen, bytes.Clone(p))
				} else {
					x.seen[x.random.IntN(len(x.seen))] = bytes.Clone(p)
				}
			}
		}
		x.tr.Release(tr)
	}
}

// packet makes a hostile packet. It returns its kind and the sender to use.
func (x *insider) packet() (p []byte, kind string, tx transport.Sender) {
	r := x.random
	p = bytes.Clone(x.seen[r.IntN(len(x.seen))])
	inner := wire.Content(p)
	bend := func() { // changes its content
		switch r.IntN(5) {
		case 0:
			inner[3], inner[4] = byte(wire.TypeHeartbeat), byte(wire.FlagEnd)
		case 1:
			inner[3] = byte(1 + r.IntN(int(wire.LastType)))
		case 2:
			if len(inner) > 40 { // a sequence, a lead, the total of a topic
				binary.LittleEndian.PutUint64(inner[32:], binary.LittleEndian.Uint64(inner[32:])+r.Uint64N(100))
			}
		case 3:
			inner[r.IntN(len(inner))] ^= 1 << r.IntN(8)
		case 4:
			binary.LittleEndian.PutUint64(inner[24:], r.Uint64()) // another instance
		}
	}
	switch r.IntN(8) {
	case 0:
		return p, "replayed", x.plain
	case 1:
		bend()
		return p, "changed", x.plain
	case 2:
		bend()
		return inner, "changed, and not signed", x.plain
	case 3:
		return inner, "not signed", x.plain
	case 4:
		bend()
		return inner, "changed, and signed by the insider", x.signs
	case 5:
		return inner, "signed by the insider", x.signs
	case 6:
		bend()
		binary.LittleEndian.PutUint64(p[8:], binary.LittleEndian.Uint64(p[8:])+r.Uint64N(100))
		return p, "changed, of a future train", x.plain
	}
	q := x.seen[r.IntN(len(x.seen))]
	return append(p[:len(p)-len(inner):len(p)-len(inner)], wire.Content(q)...), "proof of one, content of another", x.plain
}

func (x *insider) run(n int) {
	for i := range n {
		if i%50 == 0 {
			x.poll()
		}
		p, kind, tx := x.packet()
		x.sent[kind]++
		if _, err := tx.Send(&transport.Outbound{Data: p, Stride: len(p), Count: 1, Lens: []uint16{uint16(len(p))}}); err != nil {
			x.t.Error(err)
			return
		}
	}
}

// An insider has the group's key and another signing key than the publisher: none of its packets is delivered, and it
// cannot end or damage a stream. All published messages arrive. docs/protocol §29.6.
func TestInsider(t *testing.T) {
	testenv.Slow(t)
	t.Parallel() // the test mostly waits
	for name, seals := range map[string]bool{"sealed": true, "open": false} {
		t.Run(name, func(t *testing.T) { testInsider(t, seals) })
	}
}

func testInsider(t *testing.T, seals bool) {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	network := mem.NewNetwork()
	ours, his := signingKey(t), signingKey(t)
	c := Config{Logger: quiet, RecoveryDeadline: time.Minute, Silence: time.Minute}
	var set *KeySet
	if seals {
		var err error
		if set, err = NewKeySet(newKey(t)); err != nil {
			t.Fatal(err)
		}
		c.Keys = StaticKeys(set)
	}
	open := func(c Config) *Bus {
		m, err := mem.Open(mem.Config{Network: network, Groups: 1})
		if err != nil {
			t.Fatal(err)
		}
		b, err := c.OpenTransport(m)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	signs, trusts := c, c
	signs.Sign, trusts.Trust = ours, trust(t, trustLine("md.>", ours), trustLine("his.>", his))
	subBus, pubBus := open(trusts), open(signs)
	sub, pattern := subscribe(t, subBus, "md.x", PublisherEvents()), subscribe(t, subBus, ">")
	pub := publisher(t, pubBus, "md.x")
	wait(t, ctx, pub, 1)
	publishing, stop := context.WithCancel(ctx)
	defer stop()
	published := make(chan int)
	go func() {
		i := 0
		for ; publishing.Err() == nil; i++ {
			if err := pub.Publish(ctx, fmt.Appendf(nil, "message %d", i)); err != nil {
				t.Error(err)
				break
			}
			if i%100 == 0 {
				time.Sleep(100 * time.Microsecond)
			}
		}
		if err := pub.Flush(ctx); err != nil {
			t.Error(err)
		}
		published <- i
	}()
	var read [2]atomic.Int64
	for k, s := range []*Subscription{sub, pattern} {
		go func() {
			for i := 0; ; {
				m, err := s.Next(ctx)
				var e *PublisherEvent
				switch {
				case errors.As(err, &e) && e.Kind == events.PublisherUp:
				case err != nil:
					if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
						t.Errorf("after message %d: error %v, want none or %v", i, err, net.ErrClosed)
					}
					return
				case string(m.Data) != fmt.Sprintf("message %d", i) || m.Publisher() != pubBus.ID():
					t.Errorf("delivered %q of %v, want message %d", m.Data, m.Publisher(), i)
					return
				default:
					i++
					read[k].Store(int64(i))
				}
			}
		}()
	}
	eventually(t, ctx, "some messages are read", func() bool { return read[0].Load() > 1000 })
	x := newInsider(t, network, set, his)
	defer endTransport(x.tr)
	eventually(t, ctx, "the insider has seen some", func() bool { x.poll(); return len(x.seen) > 100 })
	n := 40_000
	if testing.Short() {
		n = 10_000
	}
	x.run(n)
	stop()
	total := int64(<-published)
	eventually(t, ctx, "all messages are read", func() bool { return read[0].Load() == total && read[1].Load() == total })
	st := subBus.Stats()
	t.Logf("%d messages, sent by the insider: %v, refused: %+v", total, x.sent, st.Sign)
	if s := st.Sign; s.Unsigned == 0 || s.Forged == 0 {
		t.Errorf("packets refused %+v, want some unsigned and some forged", s)
	}
	for _, g := range st.Groups {
		if g.Streams != 1 || g.Malformed+g.Implausible != 0 {
			t.Errorf("a packet of the insider was accepted: %+v", g)
		}
	}
}

// Trust changes while a stream runs: a key that is revoked or no longer trusted for the topic is refused from the next
// packet on, and reported; when it is trusted again the stream continues, without a gap. docs/protocol §29.7, §29.8.
func TestTrustChanges(t *testing.T) {
	ctx := testContext(t)
	key := signingKey(t)
	trusted := trust(t, trustLine("md.>", key))
	url := memURL(t)
	var untrusted, refused atomic.Int64
	subBus := openBus(t, Config{Trust: trusted, Silence: time.Minute, OnEvent: func(e events.Event) {
		var fault *events.FaultError
		var unreadable *UnreadableError
		switch {
		case errors.As(e.Err, &fault) && fault.Fault == events.FaultTopic:
			refused.Add(1)
		case errors.As(e.Err, &unreadable) && unreadable.Reason == transport.UnreadableUntrusted:
			untrusted.Add(1)
		}
	}}, url)
	pubBus := openBus(t, Config{Sign: key}, url)
	sub := subscribe(t, subBus, "md.x")
	pub, other := publisher(t, pubBus, "md.x"), publisher(t, pubBus, "else")
	wait(t, ctx, pub, 1)
	publish := func(p *Publisher, text string) {
		t.Helper()
		publish(t, ctx, p, text)
	}
	expect := func(text string) {
		t.Helper()
		if m, err := sub.Next(ctx); err != nil || string(m.Data) != text {
			t.Fatalf("message %q, error %v, want %q", m.Data, err, text)
		}
	}
	publish(other, "not subscribed")
	publish(pub, "first")
	expect("first")

	trusted.use(t, trustLine("else", key))
	publish(pub, "not for the topic")
	eventually(t, ctx, "the message is counted", func() bool { nothing(t, sub); return subBus.Stats().RefusedMessages == 1 })
	eventually(t, ctx, "it is reported", func() bool { return refused.Load() == 1 })
	publish(pub, "nor is this one")
	eventually(t, ctx, "the message is counted", func() bool { nothing(t, sub); return subBus.Stats().RefusedMessages == 2 })

	trusted.use(t, trustLine("md.*", key))
	publish(pub, "again")
	expect("again")

	trusted.use(t, trustLine(">", signingKey(t)))
	before := subBus.Stats().Sign.Untrusted
	publish(pub, "revoked")
	eventually(t, ctx, "the packet is counted", func() bool { return subBus.Stats().Sign.Untrusted > before })
	eventually(t, ctx, "it is reported", func() bool { return untrusted.Load() == 1 })
	nothing(t, sub)
	trusted.use(t, trustLine(">", key))
	expect("revoked") // the packet was missing, and is repaired
	publish(pub, "last")
	expect("last")
	if refused.Load() != 1 || untrusted.Load() != 1 {
		t.Errorf("events of refused packets %d, of untrusted keys %d, want 1 each", refused.Load(), untrusted.Load())
	}
}

// A bus without keys reports that packets are sealed, and not that they are unsigned.
func TestSealedAndSignedWithoutKeys(t *testing.T) {
	ctx := testContext(t)
	url, signing, key := memURL(t), signingKey(t), newKey(t)
	reported := make(chan string, 100)
	subBus := openBus(t, Config{Trust: trust(t, trustLine(">", signing)), OnEvent: func(e events.Event) {
		if e.Kind == events.PacketsUnreadable {
			reported <- e.Err.Error()
		}
	}}, url)
	sub := subscribe(t, subBus, "md.x")
	pub := publisher(t, openBus(t, Config{Sign: signing}, withKeys(url, keyFile(t, key))), "md.x")
	publish(t, ctx, pub, "sealed and signed")
	if text := <-reported; !strings.Contains(text, "are sealed with key "+key.ID.String()+", and this bus has no keys") || len(reported) > 0 {
		t.Errorf("event %q and %d more, want one of key %v", text, len(reported), key.ID)
	}
	nothing(t, sub)
}

// A bus with trust refuses unsigned publishers, and reports that once; files and fields of Config exclude each other.
func TestUnsigned(t *testing.T) {
	ctx := testContext(t)
	url, key := memURL(t), signingKey(t)
	reported := make(chan string, 100)
	subBus := openBus(t, Config{Trust: trust(t, trustLine(">", key)), OnEvent: func(e events.Event) {
		if e.Kind == events.PacketsUnreadable {
			reported <- e.Err.Error()
		}
	}}, url)
	sub := subscribe(t, subBus, "md.x")
	pub := publisher(t, openBus(t, Config{}, url), "md.x")
	for range 3 {
		publish(t, ctx, pub, "unsigned")
	}
	eventually(t, ctx, "packets are counted", func() bool { return subBus.Stats().Sign.Unsigned >= 3 })
	nothing(t, sub)
	if text := <-reported; !strings.Contains(text, "are not signed") || len(reported) > 0 {
		t.Errorf("event %q and %d more, want one of packets that are not signed", text, len(reported))
	}
	for _, c := range []struct {
		config Config
		option string
		want   string
	}{
		{Config{Sign: key}, "sign=x", "leave one out"},
		{Config{Trust: trust(t, trustLine(">", key))}, "trust=x", "leave one out"},
		{Config{Sign: key[:5]}, "", "64"},
		{Config{Sign: key}, "maxpacket=600", "too small to be signed"},
		{Config{}, "sign=/nowhere", "no such file"},
		{Config{}, "trust=/nowhere", "no such file"},
	} {
		c.config.Logger = quiet
		b, err := c.config.Open(ctx, memURL(t)+"?"+c.option)
		if err == nil {
			b.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrURL) != (c.option != "" && c.option[0] != 'm') {
			t.Errorf("option %q: error %v, want one containing %q", c.option, err, c.want)
		}
	}
}

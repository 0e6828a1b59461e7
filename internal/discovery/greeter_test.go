package discovery

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// greeting is a bus with a greeter that the test drives.
type greeting struct {
	g                     *Greeter
	published, subscribed []uint64
	waits, missing        bool
	mismatches            []*events.ConfigMismatchError
	relevant              []bool
	unreachable           []wire.TopicFilter
	peers                 map[uint32]int
	retains               int
}

func newGreeting(id events.ID, fabric Fabric) *greeting {
	x := &greeting{peers: make(map[uint32]int)}
	x.g = New(Config{Self: events.Instance{Publisher: id, Epoch: 1}, Name: "bus", GroupTag: 9, Fabric: fabric, Rand: rand.New(rand.NewPCG(uint64(id), 1))}, x)
	return x
}

func filterOf(topics []uint64) (n int, f wire.TopicFilter) {
	for _, t := range topics {
		f.Add(t)
	}
	return len(topics), f
}

func (x *greeting) Published() (int, wire.TopicFilter)  { return filterOf(x.published) }
func (x *greeting) Subscribed() (int, wire.TopicFilter) { return filterOf(x.subscribed) }
func (x *greeting) Relevant(f *wire.TopicFilter, published bool) bool {
	topics := x.subscribed
	if published {
		topics = x.published
	}
	for _, t := range topics {
		if f.May(t) {
			return true
		}
	}
	return false
}
func (x *greeting) Waits() bool            { return x.waits }
func (x *greeting) PublisherMissing() bool { return x.missing }
func (x *greeting) Mismatch(err *events.ConfigMismatchError, _ uint64, relevant bool) {
	x.mismatches, x.relevant = append(x.mismatches, err), append(x.relevant, relevant)
}
func (x *greeting) Unreachable(_ *events.ConfigMismatchError, f *wire.TopicFilter) {
	x.unreachable = append(x.unreachable, *f)
}
func (x *greeting) Retain(from uint64) (uint32, bool) {
	x.peers[uint32(from)]++
	x.retains++
	return uint32(from), true
}
func (x *greeting) Forget(p uint32) {
	if x.peers[p]--; x.peers[p] == 0 {
		delete(x.peers, p)
	}
}

// helloTo is a hello that the bus sends, and its destination.
type helloTo struct {
	peer uint32
	b    []byte
}

func (x *greeting) next(now reliable.Instant) (all []helloTo) {
	x.g.Tick(now)
	for {
		p, b, ok := x.g.Next(now, nil)
		if !ok {
			return all
		}
		all = append(all, helloTo{p, b})
	}
}

var (
	sixteen   = Fabric{Groups: 16, PacketSize: 1472, MaxPacket: 65507}
	sixtyfour = Fabric{Groups: 64, PacketSize: 1472, MaxPacket: 65507}
)

// docs/protocol §14.2.
func TestHelloSchedule(t *testing.T) {
	x := newGreeting(1, sixteen)
	start := reliable.Instant(time.Hour)
	x.g.Publishes(start)
	if hello := x.next(start.Add(10 * time.Millisecond)); hello != nil {
		t.Fatal("it sends a hello without a topic")
	}
	x = newGreeting(1, sixteen)
	x.published = []uint64{5}
	x.g.Publishes(start)
	var at []reliable.Instant
	for now := start; now < start.Add(10*time.Second); {
		now = x.g.Deadline()
		for _, hello := range x.next(now) {
			if hello.peer != 0 {
				t.Fatalf("a hello to peer %d, want one to the group", hello.peer)
			}
			at = append(at, now)
		}
		if x.g.Deadline() <= now {
			t.Fatal("Deadline does not advance")
		}
	}
	for i, want := range helloFirst {
		if at[i] != start.Add(want) {
			t.Errorf("hello %d after %v, want %v", i, at[i].Sub(start), want)
		}
	}
	for i, a := range at[len(helloFirst):] {
		if d := a.Sub(at[len(helloFirst)+i-1]); d < 900*time.Millisecond || d > 1100*time.Millisecond {
			t.Errorf("a hello %v after the one before, want 0.9 to 1.1 s", d)
		}
	}
	// The bus begins to wait for subscribers; and again.
	last := at[len(at)-1]
	now := last.Add(500 * time.Millisecond)
	x.next(now)
	x.waits = true
	x.g.Hurry(now)
	hello := x.next(now)
	if len(hello) != 1 {
		t.Fatalf("%d hellos at once, want 1", len(hello))
	}
	if p, err := wire.ParseHello(hello[0].b); err != nil || !p.Waits || p.Answer || p.Topics != 1 || !p.Filter.May(5) || string(p.Name) != "bus" {
		t.Errorf("hello %+v, error %v, want a waiting one of bus with topic 5", p, err)
	}
	x.g.Hurry(now)
	if hello := x.next(now.Add(helloSoon / 2)); hello != nil {
		t.Error("two hellos at once")
	}
	if hello := x.next(now.Add(helloSoon)); len(hello) != 1 {
		t.Errorf("%d hellos soon after, want 1", len(hello))
	}
}

// A subscriber that receives the hello of a bus with other settings reports it to its user, and answers; the publisher
// then reports it to its user, and does not answer. A hello by unicast and an answer by multicast are ignored.
// docs/protocol §14.5, §14.9, §18.2.
func TestHelloAnswered(t *testing.T) {
	pub, sub := newGreeting(1, sixtyfour), newGreeting(2, sixteen)
	pub.published, sub.subscribed = []uint64{5, 6}, []uint64{5}
	now := reliable.Instant(time.Hour)
	hello := func(p *greeting) []byte {
		p.g.Publishes(now)
		for {
			now = p.g.Deadline()
			if all := p.next(now); len(all) > 0 {
				return all[0].b
			}
		}
	}
	b := hello(pub)
	if sub.g.Answer(77, now, b) || len(sub.mismatches) > 0 {
		t.Fatal("a hello by unicast is accepted")
	}
	if !sub.g.Hello(77, now, b) {
		t.Fatal("the hello is not accepted")
	}
	if len(sub.mismatches) != 1 || sub.mismatches[0].Differences[0].Field != events.FieldGroups || sub.mismatches[0].Name != "bus" || !sub.relevant[0] {
		t.Fatalf("the subscriber reports %v, relevant %v, want one relevant mismatch with bus: the number of groups", sub.mismatches, sub.relevant)
	}
	answer := sub.next(now)
	if len(answer) != 1 || answer[0].peer != 77 || len(answer[0].b) > len(b) {
		t.Fatalf("answers %v, want one to peer 77, at most as long as the hello", answer)
	}
	for range 3 {
		if pub.g.Hello(NoSource, now, answer[0].b) {
			t.Fatal("an answer from the group is accepted")
		}
		if !pub.g.Answer(NoSource, now, answer[0].b) {
			t.Fatal("the answer is not accepted")
		}
	}
	if len(pub.mismatches) != 1 || len(pub.unreachable) != 3 || !pub.unreachable[0].May(5) || pub.unreachable[0].May(6) || !pub.relevant[0] {
		t.Errorf("the publisher reports %v, and %d buses that cannot receive its packets, want one relevant mismatch, and 3 buses of topic 5", pub.mismatches, len(pub.unreachable))
	}
	for _, h := range pub.next(now) {
		if h.peer != 0 {
			t.Error("an answer is answered")
		}
	}

	// A hello with the same settings, of another group, or of the bus itself, is not reported.
	same := newGreeting(3, sixteen)
	same.published = []uint64{5}
	sub.mismatches = nil
	for what, b := range map[string][]byte{
		"same settings": hello(same), "other addresses": wire.AppendHello(nil, wire.Header{GroupTag: 8, Publisher: 4}, &wire.Hello{}),
		"its own": sub.g.appendHello(nil, 9, &wire.Hello{}), "short": b[:len(b)-1],
	} {
		sub.g.Hello(78, now, b)
		if len(sub.mismatches) > 0 || len(sub.next(now)) > 0 {
			t.Errorf("%s: reported %v, or answered, want neither", what, sub.mismatches)
		}
	}
	// Another packet size is reported, and not answered.
	small := newGreeting(5, Fabric{Groups: 16, PacketSize: 512, MaxPacket: 65507})
	small.published = []uint64{5}
	sub.g.Hello(79, now, hello(small))
	if len(sub.mismatches) != 1 || !sub.mismatches[0].Harmless() || len(sub.next(now)) > 0 {
		t.Errorf("small packets: mismatches %v, want a harmless one and no answer", sub.mismatches)
	}
	// Of a hello of another version only the name and the version are read.
	other := newGreeting(6, sixteen)
	other.published = []uint64{5}
	b = hello(other)
	b[2] = 7
	sub.mismatches = nil
	sub.g.Hello(80, now, b)
	sub.g.Hello(80, now, b)
	if len(sub.mismatches) != 1 || sub.mismatches[0].Differences[0].Field != events.FieldVersion || sub.mismatches[0].Differences[0].Theirs != "7" || sub.mismatches[0].Name != "bus" {
		t.Errorf("another version: mismatches %v, want one with bus: version 7 there", sub.mismatches)
	}
	sub.g.Close()
	if len(sub.peers) > 0 {
		t.Errorf("peers %v are still retained", sub.peers)
	}
}

// Answers to one bus become rare, unless it waits, and are at least a second apart. docs/protocol §14.5.
func TestAnswersBecomeRare(t *testing.T) {
	for _, waits := range []bool{false, true} {
		x := newGreeting(2, sixteen)
		x.subscribed = []uint64{5}
		hello := wire.AppendHello(nil, wire.Header{GroupTag: 9, Publisher: 1, Epoch: 1}, &wire.Hello{Settings: wire.SettingsOf(64, wire.Mapping{}, false), PacketSize: 1472, Waits: waits})
		var at []time.Duration
		for d := time.Duration(0); d < 5*time.Minute; d += 10 * time.Millisecond {
			now := reliable.Instant(time.Hour).Add(d)
			x.g.Hello(77, now, hello)
			for range x.next(now) {
				at = append(at, d)
			}
		}
		most := 5*60 + 1
		if !waits {
			most = 3 + 6 + 4
		}
		if len(at) > most || len(at) < most-5 || at[0] != 0 || at[1] != time.Second || at[2] != 2*time.Second {
			t.Errorf("waits %v: answered %d times: %v", waits, len(at), at[:min(len(at), 12)])
		}
		for i := 1; i < len(at); i++ {
			if at[i]-at[i-1] < time.Second {
				t.Errorf("answered after only %v, want at least 1 s", at[i]-at[i-1])
			}
		}
	}
}

// With forged hellos a bus never sends more than it received, and limits answers per second and memory (docs/protocol
// §14.5).
func TestAnswersAreBounded(t *testing.T) {
	x := newGreeting(2, sixteen)
	x.subscribed = []uint64{5}
	heard, said := 0, 0
	const seconds = 20
	for i := range uint64(50_000) {
		now := reliable.Instant(time.Hour).Add(time.Duration(i) * seconds * time.Second / 50_000)
		b := wire.AppendHello(nil, wire.Header{GroupTag: 9, Publisher: events.ID(100 + i), Epoch: 1}, &wire.Hello{Settings: wire.SettingsOf(64, wire.Mapping{}, false)})
		x.g.Hello(1000+i, now, b)
		heard += len(b)
		for _, h := range x.next(now) {
			said += len(h.b)
		}
		if len(x.peers) > answersKept {
			t.Fatalf("%d peers are retained, want at most %d", len(x.peers), answersKept)
		}
	}
	most := (answersAtOnce + seconds*int(time.Second/answersEvery) + 1) * wire.HelloLen
	if said == 0 || said > heard || said > most {
		t.Errorf("%d bytes received, %d sent, want %d at most", heard, said, most)
	}
	if len(x.mismatches) > reportsAtOnce+seconds {
		t.Errorf("%d buses are reported, want at most %d", len(x.mismatches), reportsAtOnce+seconds)
	}
	// Without further hellos all is forgotten.
	x.next(reliable.Instant(2 * time.Hour))
	if len(x.peers) > 0 {
		t.Errorf("%d peers are still retained", len(x.peers))
	}
}

func TestGreeterAllocs(t *testing.T) {
	x := newGreeting(2, sixteen)
	x.subscribed, x.published = []uint64{5}, []uint64{6}
	now := reliable.Instant(time.Hour)
	h := wire.Header{GroupTag: 9, Publisher: 1, Epoch: 1}
	for name, hb := range map[string]wire.Heartbeat{
		"alike":                       {Settings: wire.SettingsOf(16, wire.Mapping{}, false), PacketSize: 1472},
		"another checksum":            {Settings: wire.SettingsOf(16, wire.Mapping{}, true), PacketSize: 1472},
		"other groups, reported once": {Settings: wire.SettingsOf(64, wire.Mapping{}, false), PacketSize: 1472},
	} {
		x.g.Heartbeat(1, now, h, hb, []uint32{9})
		if n := testing.AllocsPerRun(100, func() { x.g.Heartbeat(1, now, h, hb, []uint32{9}) }); n > 0 {
			t.Errorf("%s: Heartbeat makes %v allocations, want none", name, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() { x.g.Tick(now) }); n > 0 {
		t.Errorf("a tick: %v allocations, want none", n)
	}
}

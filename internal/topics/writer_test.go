package topics

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// layoutRun is a run of a packet, with the lengths of its messages.
type layoutRun struct {
	topic    uint64
	number   uint64
	messages []int
}

func layout(t *testing.T, p []byte) []layoutRun {
	t.Helper()
	d, err := wire.ParseData(p)
	if err != nil {
		t.Fatal(err)
	}
	var out []layoutRun
	for runs := d.Runs; ; {
		r, rest, ok := wire.NextRun(runs)
		if !ok {
			return out
		}
		runs = rest
		if r.Kind == wire.RunTopic {
			continue
		}
		x := layoutRun{topic: r.Topic, number: r.Number}
		for body := r.Body; len(body) > 0; {
			m, rest, ok := wire.NextMessage(body)
			if !ok {
				t.Fatalf("run of topic %#x does not parse", r.Topic)
			}
			x.messages = append(x.messages, len(m))
			body = rest
		}
		out = append(out, x)
	}
}

// docs/protocol §2.10, §2.11, §10.6.
func TestWriterPacksRunsOfTopics(t *testing.T) {
	b := newBench(t, nil)
	x, y := b.topic("x"), b.topic("y")
	for _, m := range []struct {
		t *Topic
		n int
	}{{x, 10}, {x, 0}, {y, 20}, {x, 30}} {
		b.put(m.t, m.n)
	}
	b.m.Assign(b.now, b.w, true)
	ps := of(wire.TypeData, b.next())
	if len(ps) != 1 {
		t.Fatalf("%d packets, want 1", len(ps))
	}
	got := layout(t, ps[0].b)
	want := []layoutRun{{x.ID, 0, []int{10, 0}}, {y.ID, 0, []int{20}}, {x.ID, 2, []int{30}}}
	if len(got) != len(want) {
		t.Fatalf("runs %v, want %v", got, want)
	}
	for i := range want {
		if got[i].topic != want[i].topic || got[i].number != want[i].number || len(got[i].messages) != len(want[i].messages) {
			t.Errorf("run %d is %v, want %v", i, got[i], want[i])
		}
	}
	if x.Next() != 3 || y.Next() != 1 {
		t.Errorf("next numbers %d and %d", x.Next(), y.Next())
	}
}

// Messages appended together yield the same packets as messages appended one by one.
func TestAppendAll(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		one, all := newBench(t, nil), newBench(t, nil)
		names := []string{"x", "y"}
		var got, want [][]byte // packets
		flush := func(b *bench, out *[][]byte) {
			b.m.Assign(b.now, b.w, true)
			for _, p := range of(wire.TypeData, b.next()) {
				*out = append(*out, bytes.Clone(p.b))
			}
			b.s.Grant(b.w.Packets)
		}
		for range 20 {
			name := names[rng.IntN(2)]
			msgs := make([][]byte, rng.IntN(30))
			for i := range msgs {
				msgs[i] = bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(100)*rng.IntN(12))
			}
			for _, m := range msgs {
				for !one.w.Append(one.topic(name), m) {
					flush(one, &want)
				}
			}
			for i := 0; i < len(msgs); {
				n := all.w.AppendAll(all.topic(name), msgs[i:])
				if i += n; i < len(msgs) {
					flush(all, &got)
				}
			}
		}
		flush(one, &want)
		flush(all, &got)
		if !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("seed %d: AppendAll made %d packets, Append %d: want the same packets", seed, len(got), len(want))
		}
	}
}

// docs/protocol §2.9.
func TestWriterFillsPacketsAndPads(t *testing.T) {
	for _, equal := range []bool{false, true} {
		b := newBench(t, func(c *reliable.SenderConfig) { c.EqualTrains = equal })
		x := b.topic("x")
		b.m.topicStated(x, 0) // as after the first packet
		for range 5 {
			b.put(x, 200) // two in a packet
		}
		b.m.Assign(b.now, b.w, true)
		ps := of(wire.TypeData, b.next())
		if len(ps) != 3 {
			t.Fatalf("%d packets, want 3", len(ps))
		}
		full := wire.DataHeaderLen + wire.RunHeaderLen + 2*(wire.MessageHeaderLen+200)
		if equal {
			full = 512
		}
		short := wire.DataHeaderLen + wire.RunHeaderLen + wire.MessageHeaderLen + 200
		for i, want := range []int{full, full, short} {
			if len(ps[i].b) != want {
				t.Errorf("equal %v: packet %d of %d bytes, want %d", equal, i, len(ps[i].b), want)
			}
			if n := len(layout(t, ps[i].b)[0].messages); n != 2-i/2 {
				t.Errorf("equal %v: packet %d has %d messages", equal, i, n)
			}
		}
	}
}

// Messages of the same size yield equal packets: after a few they are sent unpadded, in trains as
// long as before, until the size changes.
func TestWriterStopsPaddingAlikePackets(t *testing.T) {
	b := newBench(t, func(c *reliable.SenderConfig) {
		c.EqualTrains, c.MaxTrain, c.MaxTrainBytes, c.WindowPackets = true, 16, 16*512, 64
	})
	x := b.topic("x")
	b.m.topicStated(x, 0) // as after the first packet
	const packet = wire.DataHeaderLen + wire.RunHeaderLen + wire.MessageHeaderLen + 300
	var sizes, trains []int
	drain := func() {
		b.m.Assign(b.now, b.w, true)
		b.s.Grant(b.w.Packets)
		var tr transport.Outbound
		for b.s.Next(b.now, &tr) {
			if wire.Type(tr.Data[3]) == wire.TypeData {
				trains = append(trains, tr.Count)
				for _, n := range tr.Lens[:tr.Count] {
					sizes = append(sizes, int(n))
				}
			}
			b.posted += uint64(tr.Count)
			b.s.Sent(b.now, tr.Count, b.posted)
		}
	}
	for range 33 { // 16 in a block; the last one stays open
		b.put(x, 300)
	}
	b.put(x, 0) // in the last packet, too
	drain()
	sizes = sizes[:32]
	for i, n := range sizes {
		if want := packet; i < 8 && n != 512 || i >= 8 && n != want {
			t.Errorf("packet %d has %d bytes", i, n)
		}
	}
	// The first unpadded packet is the shorter last one of the previous train.
	if want := []int{9, 7, 16, 1}; !slices.Equal(trains, want) {
		t.Errorf("trains of %v packets, want %v", trains, want)
	}
	sizes = nil
	b.put(x, 250)
	b.put(x, 300)
	b.put(x, 300)
	drain()
	if want := []int{512, 512, packet}; !slices.Equal(sizes, want) {
		t.Errorf("packets of %v bytes after a change, want %v", sizes, want)
	}
}

// If trains of equal packets are efficient, packets are contiguous, and a train has more of them if
// they are shorter: as many as fit in its bytes.
func TestTrainsOfShorterPackets(t *testing.T) {
	b := newBench(t, func(c *reliable.SenderConfig) {
		c.EqualTrains, c.MaxTrain, c.MaxTrainBytes, c.WindowPackets = true, 12, 8*512, 64
	})
	x := b.topic("x")
	b.m.topicStated(x, 0)
	for _, c := range []struct{ message, packets int }{
		{512 - wire.DataHeaderLen - wire.RunHeaderLen - wire.MessageHeaderLen, 8}, // full packets
		{300, 10}, // the last one begins where a full one would fit
		{240, 12}, // the maximum
	} {
		came := 0
		for range 60 {
			for !b.w.Append(x, make([]byte, c.message)) {
				b.m.Assign(b.now, b.w, false)
				b.s.Grant(b.w.Packets)
			}
		}
		b.m.Assign(b.now, b.w, true)
		most := 0
		var tr transport.Outbound
		for b.s.Next(b.now, &tr) {
			if wire.Type(tr.Data[3]) == wire.TypeData {
				if most = max(most, tr.Count); tr.Stride != int(tr.Lens[0]) || len(tr.Data) > 8*512 {
					t.Errorf("packets of %d bytes at distances of %d, %d bytes in total", tr.Lens[0], tr.Stride, len(tr.Data))
				}
				for i := range tr.Count {
					p := tr.Data[i*tr.Stride:][:tr.Lens[i]]
					for _, r := range layout(t, p) {
						came += len(r.messages)
					}
				}
			}
			b.posted += uint64(tr.Count)
			b.s.Sent(b.now, tr.Count, b.posted)
		}
		if most != c.packets {
			t.Errorf("messages of %d bytes: trains of up to %d packets, want %d", c.message, most, c.packets)
		}
		if came != 60 {
			t.Errorf("messages of %d bytes: %d of 60 arrived", c.message, came)
		}
		b.s.Grant(b.w.Packets)
	}
}

func TestWriterAcceptsTheLongestMessage(t *testing.T) {
	b := newBench(t, nil)
	x := b.topic("x")
	b.put(x, 1)
	b.put(x, b.m.MaxInPacket())
	b.m.Assign(b.now, b.w, true)
	if ps := of(wire.TypeData, b.next()); len(ps) != 2 || len(ps[1].b) != 512 {
		t.Errorf("%d packets, the last of %d bytes", len(ps), len(ps[len(ps)-1].b))
	}
}

// docs/protocol §10.1.
func TestWriterFragments(t *testing.T) {
	b := newBench(t, nil)
	x := b.topic("x")
	msg := make([]byte, 1000)
	for i := range msg {
		msg[i] = byte(i)
	}
	b.put(x, 5)
	at := 0
	for at < len(msg) {
		if next := b.w.AppendFragment(x, msg, at, 0); next != at {
			at = next
			continue
		}
		b.m.Assign(b.now, b.w, false)
		if !b.s.Grant(b.w.Packets) {
			t.Fatal("no block")
		}
	}
	b.put(x, 6)
	b.m.Assign(b.now, b.w, true)
	ps := of(wire.TypeData, b.next())
	if len(ps) != 3 { // the fragments share the first packet with a small message and the last one with another
		t.Fatalf("%d packets, want 3", len(ps))
	}
	var read assembler
	var sizes []int
	for _, p := range ps {
		d, _ := wire.ParseData(p.b)
		for _, m := range read.messages(d.Runs) {
			if m.topic != x.ID || m.number != uint64(len(sizes)) {
				t.Errorf("message %+v", m)
			}
			sizes = append(sizes, len(m.text))
			if len(m.text) == len(msg) && !bytes.Equal(m.text, msg) {
				t.Error("the message was assembled wrongly")
			}
		}
	}
	if len(sizes) != 3 || sizes[0] != 5 || sizes[1] != 1000 || sizes[2] != 6 {
		t.Errorf("messages of %v bytes", sizes)
	}
}

// A message with some fragments sent blocks other writers until it is complete or abandoned; an
// abandoned one was never published. docs/protocol §10.1, §10.2.
func TestWritersDoNotMixFragments(t *testing.T) {
	b := newBench(t, nil)
	x := b.topic("x")
	other := b.m.NewWriter()
	b.s.Grant(b.w.Packets)
	b.s.Grant(other.Packets)
	b.w.AppendFragment(x, make([]byte, 2000), 0, 0)
	b.m.Assign(b.now, b.w, false)
	other.Append(x, []byte("hello"))
	if r := b.m.Assign(b.now, other, true); r != events.ReasonOther {
		t.Fatalf("Assign in the middle of another's message: %v", r)
	}
	b.m.Abandon(b.w)
	if r := b.m.Assign(b.now, other, true); r != events.ReasonNone {
		t.Fatalf("Assign after Abandon: %v", r)
	}
	var read assembler
	n := 0
	for _, p := range of(wire.TypeData, b.next()) {
		d, _ := wire.ParseData(p.b)
		for _, m := range read.messages(d.Runs) {
			n++
			if m.topic != x.ID || m.number != 0 || string(m.text) != "hello" {
				t.Errorf("message %+v", m)
			}
		}
	}
	if n != 1 {
		t.Errorf("%d items", n)
	}
}

// Two names with one id.
const collides, twinName = "8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ"

func TestTopicNames(t *testing.T) {
	b := newBench(t, nil)
	if _, err := b.m.Topic(""); err == nil {
		t.Error("an empty name is accepted")
	}
	if _, err := b.m.Topic(string(make([]byte, 256))); err == nil {
		t.Error("a name of 256 bytes is accepted")
	}
	x := b.topic("md.xnas.AAPL")
	if again := b.topic("md.xnas.AAPL"); again != x {
		t.Error("the same name yields another topic")
	}
	one := b.topic(collides)
	_, err := b.m.Topic(twinName)
	var c *events.TopicCollisionError
	if !errors.Is(err, events.ErrTopicCollision) || !errors.As(err, &c) || c.Known != collides || c.Other != twinName || c.ID != events.ID(one.ID) {
		t.Errorf("collision: %v", err)
	}
	// The ids are part of the protocol: they must never change.
	for name, id := range map[string]uint64{"a": 0x2ef7d1316eb86f71, "md.xnas.AAPL": 0x60a1fb65a57461be} {
		if got := wire.TopicID(name); got != id {
			t.Errorf("wire.TopicID(%q) = %#x, want %#x", name, got, id)
		}
	}
	if tag := wire.GroupTag("239.20.0.1:7400"); tag != 0xd4b7b5a0 {
		t.Errorf("GroupTag %#x", tag)
	}
}

// Packets of any size are padded, with the same messages. docs/protocol §27.11.
func TestPacketsArePadded(t *testing.T) {
	for _, pad := range []int{0, 1, 64, 500, 512, 1472} {
		b := newBench(t, func(c *reliable.SenderConfig) { c.Pad, c.WindowPackets, c.Flow = pad, 1024, reliable.NoFlow{} })
		x := b.topic("a.b")
		for n := range 420 {
			b.put(x, n)
			b.m.Assign(b.now, b.w, true)
			ps := of(wire.TypeData, b.next())
			if len(ps) != 1 {
				t.Fatalf("%d packets of %d bytes", len(ps), n)
			}
			plain := wire.DataHeaderLen + wire.RunHeaderLen + wire.MessageHeaderLen + n
			got, runs := len(ps[0].b), layout(t, ps[0].b)
			last := runs[len(runs)-1]
			if n == 0 {
				continue // has the topic's name, too
			}
			if want := min(512, (plain+max(1, pad)-1)/max(1, pad)*max(1, pad)); got != want {
				t.Fatalf("padded to %d: a message of %d bytes is in a packet of %d, want %d", pad, n, got, want)
			}
			if len(runs) != 1 || last.topic != x.ID {
				t.Fatalf("padded to %d: runs %+v", pad, runs)
			}
		}
	}
}

// Padding counts for the rate limit. docs/protocol §27.11.
func TestRateLimitCountsPadding(t *testing.T) {
	b := newBench(t, func(c *reliable.SenderConfig) {
		c.Pad, c.WindowPackets, c.Flow, c.Rate = 512, 1024, reliable.NoFlow{}, 512_000
	})
	x := b.topic("a.b")
	sent := 0
	for start := b.now; b.now.Sub(start) < time.Second; b.now = b.now.Add(100 * time.Microsecond) {
		if !b.w.Pending() {
			b.put(x, 10)
		}
		b.m.Assign(b.now, b.w, true)
		sent += len(of(wire.TypeData, b.next()))
	}
	if sent < 900 || sent > 1100 {
		t.Errorf("%d packets in a second, the rate is 1000 full packets", sent)
	}
}

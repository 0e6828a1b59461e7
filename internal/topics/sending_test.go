package topics

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// bench is a sender whose packets the test collects.
type bench struct {
	t      *testing.T
	s      *reliable.Sender
	m      *Sender
	w      *Writer
	now    reliable.Instant
	posted uint64
}

func newBench(t *testing.T, change func(*reliable.SenderConfig)) *bench {
	t.Helper()
	b := &bench{t: t, now: reliable.Instant(time.Hour)}
	b.s = openSender(t, b.now, change)
	b.m = NewSender(b.s, nil, nil)
	b.w = b.m.NewWriter()
	return b
}

func (b *bench) topic(name string) *Topic {
	b.t.Helper()
	x, err := b.m.Topic(name)
	if err != nil {
		b.t.Fatal(err)
	}
	return x
}

// put appends a message of n bytes, and calls Assign and Grant as needed.
func (b *bench) put(t *Topic, n int) {
	b.t.Helper()
	for range 3 {
		if b.w.Append(t, make([]byte, n)) {
			return
		}
		b.m.Assign(b.now, b.w, false)
		b.s.Grant(b.w.Packets)
	}
	b.t.Fatalf("no room for a message of %d bytes: %v", n, b.s.Blocked())
}

// next returns all packets to be sent now.
func (b *bench) next() (all []packet) {
	b.t.Helper()
	b.trains(func(tr *transport.Outbound) {
		for i := range tr.Count {
			p := bytes.Clone(tr.Data[i*tr.Stride:][:tr.Lens[i]])
			h, err := wire.ParseHeader(p)
			if err != nil {
				b.t.Fatal(err)
			}
			all = append(all, packet{h, p})
		}
	})
	return all
}

// trains sends all trains, and passes them to f.
func (b *bench) trains(f func(*transport.Outbound)) {
	var tr transport.Outbound
	for b.s.Next(b.now, &tr) {
		f(&tr)
		b.posted += uint64(tr.Count)
		b.s.Sent(b.now, tr.Count, b.posted)
	}
}

// of returns the packets of one type.
func of(t wire.Type, all []packet) []packet {
	return slices.DeleteFunc(all, func(p packet) bool { return p.Type != t })
}

func (b *bench) header() wire.Header { return wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3} }

func (b *bench) status(receiver, next, limit uint64, flags wire.Flags) {
	b.s.Handle(b.now, b.statusOf(flags, wire.Status{Receiver: receiver, Next: next, Limit: limit}), nil)
}

func (b *bench) statusOf(flags wire.Flags, st wire.Status) []byte {
	h := b.header()
	h.Flags = flags
	return wire.AppendStatus(nil, h, &st, nil)
}

// message is a message in a packet.
type message struct {
	topic, number uint64
	text          []byte
}

// assembler assembles the messages of consecutive packets.
type assembler struct{ partial []byte }

// messages returns the messages that end in the packet with these runs.
func (a *assembler) messages(runs []byte) (all []message) {
	for run, rest, ok := wire.NextRun(runs); ok; run, rest, ok = wire.NextRun(rest) {
		m := message{topic: run.Topic, number: run.Number}
		switch run.Kind {
		case wire.RunMessages:
			for text, body, ok := wire.NextMessage(run.Body); ok; text, body, ok = wire.NextMessage(body) {
				m.text = text
				all = append(all, m)
				m.number++
			}
		case wire.RunFragment:
			f, err := wire.ParseFragment(run.Body)
			if f.Offset == 0 {
				a.partial = nil
			}
			if err != nil || f.Offset != len(a.partial) {
				continue // its beginning was lost
			}
			if a.partial = append(a.partial, f.Bytes...); len(a.partial) == f.Total {
				m.text = a.partial
				all = append(all, m)
			}
		}
	}
	return all
}

// controlOf returns all control packets that r sends.
func controlOf(r *reliable.Receiver, now reliable.Instant) (all []packet) {
	r.Tick(now)
	for {
		_, p, ok := r.Next(now, nil)
		if !ok {
			return all
		}
		h, err := wire.ParseHeader(p)
		if err != nil {
			panic(err)
		}
		all = append(all, packet{h, p})
	}
}

// batchLog records the batches of a sender.
type batchLog struct {
	noSenderSink
	batches [][2]uint64
}

func (x *batchLog) Batch(messages, packets uint64) {
	x.batches = append(x.batches, [2]uint64{messages, packets})
}

// A sender reports packets and messages of batches.
func TestSenderReportsBatches(t *testing.T) {
	b, x := newBench(t, nil), &batchLog{}
	b.m.batches.sink = x
	topic := b.topic("a.b")
	for _, messages := range []int{1, 1, 1, 2} {
		for range messages {
			b.put(topic, 100)
		}
		b.m.Assign(b.now, b.w, true)
	}
	full := uint64(0)
	for _, s := range x.batches {
		full += s[0] * s[1]
	}
	if full != 5 || x.batches[len(x.batches)-1] != [2]uint64{2, 1} || b.m.Stats().MessagesSent != 5 {
		t.Errorf("batches %v, %d messages", x.batches, b.m.Stats().MessagesSent)
	}
}

// A member that has named no topics may want any; one that has left wants none.
func TestMembers(t *testing.T) {
	b := newBench(t, nil)
	b.status(1, 0, 10, 0)
	if m, known, may := b.m.members.member(1, 5); m == nil || known || !may || len(b.m.members.list) != 1 || b.m.members.max != 1024 {
		t.Errorf("a member that has named no topics is %+v, wants one: %v, %v", m, known, may)
	}
	b.status(1, 0, 10, wire.FlagLeaving)
	if m, _, may := b.m.members.member(1, 5); len(b.m.members.list) != 0 || m != nil || may {
		t.Errorf("%d members after it left, %+v", len(b.m.members.list), m)
	}
}

// A block that is ended before it is full begins no further packet.
func TestNextBlock(t *testing.T) {
	b := newBench(t, nil)
	x := b.topic("x")
	for i := range uint64(500) {
		b.put(x, 100)
		b.m.NextBlock(b.w) // a packet is pending: no effect
		if !b.w.Pending() {
			t.Fatal("the pending packet is lost")
		}
		b.m.Assign(b.now, b.w, true)
		b.next()
		b.m.NextBlock(b.w)
		if !b.s.Grant(b.w.Packets) || b.w.Packets.Rest() != 4 {
			t.Fatalf("no new block after %d packets", i)
		}
		if b.w.Packets.Assigned() != i+1 || b.w.Begun() != i+1 {
			t.Fatalf("%d packets begun and %d assigned, want %d", b.w.Begun(), b.w.Packets.Assigned(), i+1)
		}
	}
}

// tracked records the number and sequence of a message.
type tracked struct{ number, seq uint64 }

func (x *tracked) Assigned(_ reliable.Instant, number, seq uint64) { x.number, x.seq = number, seq }

// Tracked messages have runs of their own, and get the number and the sequence of the packet in which they end.
func TestTrackedMessages(t *testing.T) {
	b := newBench(t, nil)
	topic := b.topic("a.b")
	b.put(topic, 10)
	var all [3]tracked
	large := make([]byte, 600)
	for i, flags := range []wire.RunFlags{wire.RunFlagRequest, 0} {
		if !b.w.AppendAlone(topic, []byte("alone"), flags) {
			t.Fatal("no room")
		}
		b.w.Track(&all[i])
	}
	b.put(topic, 10)
	for offset := 0; offset < len(large); {
		offset = b.w.AppendFragment(topic, large, offset, wire.RunFlagRequest)
	}
	b.w.Track(&all[2])
	b.m.Assign(b.now, b.w, true)
	if want := [3]tracked{{1, 0}, {2, 0}, {4, 1}}; all != want || len(b.w.tracked) != 0 {
		t.Errorf("assigned %v, want %v; %d are left", all, want, len(b.w.tracked))
	}
	var flags []wire.RunFlags
	for _, p := range of(wire.TypeData, b.next()) {
		d, err := wire.ParseData(p.b)
		if err != nil {
			t.Fatal(err)
		}
		for run, rest, ok := wire.NextRun(d.Runs); ok; run, rest, ok = wire.NextRun(rest) {
			flags = append(flags, run.Flags&wire.RunFlagRequest)
		}
	}
	if want := []wire.RunFlags{0, 0, wire.RunFlagRequest, 0, 0, wire.RunFlagRequest, wire.RunFlagRequest}; !slices.Equal(flags, want) {
		t.Errorf("runs have flags %v, want %v", flags, want)
	}
}

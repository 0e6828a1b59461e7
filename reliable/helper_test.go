package reliable

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/transport"
)

// bench is a sender whose packets the test collects.
type bench struct {
	t   *testing.T
	s   *Sender
	w   *Writer
	now Instant
	// narrow: the transport accepts only the first packet of each train.
	narrow bool
	topics map[string]*Topic
}

// senderConfig sets fields that most tests do not use.
func senderConfig(c SenderConfig) SenderConfig {
	c.RepairShare, c.Silence = cmp.Or(c.RepairShare, 0.5), cmp.Or(c.Silence, time.Second)
	return c
}

// receiverConfig is the same for receivers.
func receiverConfig(c ReceiverConfig) ReceiverConfig {
	c.WindowBytes, c.MemoryBytes = cmp.Or(c.WindowBytes, 8<<20), cmp.Or(c.MemoryBytes, 64<<20)
	c.MaxStreams = cmp.Or(c.MaxStreams, 64)
	c.Deadline = cmp.Or(c.Deadline, 2*time.Second)
	if c.Buffer == nil {
		c.Buffer = NewReceiveBuffer(128, false, false)
	}
	return c
}

func newBench(t *testing.T, change func(*SenderConfig)) *bench {
	t.Helper()
	cfg := senderConfig(SenderConfig{Publisher: 7, Epoch: 3, GroupTag: 9, PacketSize: 512, MaxTrain: 4, MaxTrainBytes: 4 * 512, WindowPackets: 16})
	if change != nil {
		change(&cfg)
	}
	now := Instant(time.Hour)
	s, err := NewSender(cfg, make([]byte, cfg.BlockBytes()*(cfg.Blocks()+2)), now)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, s: s, w: s.NewWriter(), now: now, topics: make(map[string]*Topic)}
}

func (b *bench) topic(name string) *Topic {
	b.t.Helper()
	t := b.topics[name]
	if t == nil {
		t = newTopic(name)
		b.topics[name] = t
	}
	return t
}

// taken returns the events of a kind since the last call, and discards the others.
func taken(s *Sender, kind events.Kind) []events.Event {
	return slices.DeleteFunc(s.TakeEvents(), func(e events.Event) bool { return e.Kind != kind })
}

// put appends a message of n bytes, and calls Assign and Grant as needed.
func (b *bench) put(t *Topic, n int) {
	b.t.Helper()
	for range 3 {
		if b.w.Append(t, make([]byte, n)) {
			return
		}
		b.s.Assign(b.now, b.w, false)
		b.s.Grant(b.w.Packets)
	}
	b.t.Fatalf("no room for a message of %d bytes: %v", n, b.s.Blocked())
}

// sent is a packet returned by Next.
type sent struct {
	wire.Header
	b []byte
}

func (p sent) seq() uint64 {
	d, _ := wire.ParseData(p.b)
	return d.Seq
}

// next returns all packets to be sent now.
func (b *bench) next() []sent {
	b.t.Helper()
	var all []sent
	var tr transport.Outbound
	for b.s.Next(b.now, &tr) {
		n := tr.Count
		if b.narrow {
			n = 1
		}
		for i := range n {
			p := append([]byte(nil), tr.Data[i*tr.Stride:][:tr.Lens[i]]...)
			h, err := wire.ParseHeader(p)
			if err != nil {
				b.t.Fatal(err)
			}
			all = append(all, sent{h, p})
		}
		b.s.Sent(b.now, n, b.s.out.posted+uint64(n))
	}
	return all
}

// of returns the packets of one type.
func of(t wire.Type, all []sent) []sent {
	var some []sent
	for _, p := range all {
		if p.Type == t {
			some = append(some, p)
		}
	}
	return some
}

// publish assigns n packets of one message each, and returns the packets to be sent.
func (b *bench) publish(n int) []sent {
	b.t.Helper()
	t := b.topic("a.b")
	for range n {
		b.put(t, 100)
		if r := b.s.Assign(b.now, b.w, true); r != events.ReasonNone {
			b.t.Fatalf("Assign: %v", r)
		}
	}
	return of(wire.TypeData, b.next())
}

func (b *bench) header() wire.Header { return wire.Header{GroupTag: 9, Publisher: 7, Epoch: 3} }

func (b *bench) status(receiver, next, limit uint64, flags wire.Flags) {
	h := b.header()
	h.Flags = flags
	b.s.Handle(b.now, wire.AppendStatus(nil, h, &wire.Status{Receiver: receiver, Next: next, Limit: limit}, nil), nil)
}

func (b *bench) nak(receiver uint64, ranges ...[2]uint64) {
	var rb wire.RangesBuilder
	rb.Begin(nil, b.header(), wire.TypeNAK, receiver, ranges[0][0], wire.ReasonNone, 0, 1200)
	for _, r := range ranges {
		rb.Add(r[0], r[1])
	}
	b.s.Handle(b.now, rb.Finish(), nil)
}

// heap is a packet memory on the heap.
type heap struct{ bytes int }

func (h *heap) Alloc(n int, _ bool) ([]byte, error) { h.bytes += n; return make([]byte, n), nil }
func (h *heap) Free(mem []byte)                     { h.bytes -= len(mem) }

// log records the events of a receiver, and implements its Peers.
type log struct {
	legs       []LegEvent
	up, down   []events.Cause // causes of down; one entry for each up
	packets    []uint64
	gaps       [][3]uint64    // first, count, cause
	lost       []events.Cause // causes of EventDown
	faults     []events.FaultError
	losses     []LossEvent
	timed      []time.Duration
	refused    [][2]uint64 // publisher, reason
	duplicates [][2]*Stream
	peers      map[uint32]int
	onPacket   func(st *Stream, runs []byte)
	room       func() bool            // nil: there is always room
	contents   func(*Stream) Contents // nil: opaque
}

func (l *log) StreamUp(*Stream) { l.up = append(l.up, 0) }
func (l *log) packet(st *Stream, runs []byte) {
	if l.onPacket != nil {
		l.onPacket(st, runs)
		return
	}
	l.packets = append(l.packets, uint64(len(l.packets)))
}
func (l *log) StreamDown(_ *Stream, cause events.Cause)      { l.down = append(l.down, cause) }
func (l *log) Leg(_ *Stream, e LegEvent)                     { l.legs = append(l.legs, e) }
func (l *log) Timed(_ *Stream, _ uint64, took time.Duration) { l.timed = append(l.timed, took) }
func (l *log) Loss(_ *Stream, e LossEvent)                   { l.losses = append(l.losses, e) }

func (l *log) Refused(_ Instant, of events.Instance, why events.Refusal) {
	l.refused = append(l.refused, [2]uint64{uint64(of.Publisher), uint64(why)})
}

func (l *log) DuplicateName(st, other *Stream) {
	l.duplicates = append(l.duplicates, [2]*Stream{st, other})
}
func (l *log) Retain(from uint64) (uint32, bool) {
	if l.peers == nil {
		l.peers = make(map[uint32]int)
	}
	l.peers[uint32(from)]++
	return uint32(from), true
}
func (l *log) Forget(p uint32)            { l.peers[p]-- }
func (l *log) Address(from uint64) string { return fmt.Sprint("host", from) }

func newReceiver(t *testing.T, l *log, change func(*ReceiverConfig)) *Receiver {
	t.Helper()
	cfg := receiverConfig(ReceiverConfig{ID: 42, GroupTag: 9, WindowBytes: 32 * 512, MemoryBytes: 128 * 512, MaxStreams: 2, Memory: &heap{}, Rand: rand.New(rand.NewPCG(1, 2))})
	if change != nil {
		change(&cfg)
	}
	r, err := NewReceiver(cfg, l, l)
	if err != nil {
		t.Fatal(err)
	}
	want(r, 0, true)
	return r
}

// replies returns all control packets that r sends.
func replies(r *Receiver, now Instant) []sent {
	r.Tick(now)
	var all []sent
	for {
		_, p, ok := r.Next(now, nil)
		if !ok {
			return all
		}
		h, err := wire.ParseHeader(p)
		if err != nil {
			panic(err)
		}
		all = append(all, sent{h, p})
	}
}

// data returns a data packet of one message.
func data(epoch events.ID, seq uint64, flags wire.Flags) []byte {
	b := make([]byte, 512)
	wire.PutDataHeader(b, wire.Header{GroupTag: 9, Publisher: 7, Epoch: epoch}, 512)
	wire.SetSeq(b, seq)
	wire.SetFlags(b, flags)
	wire.PutRunHeader(b[wire.DataHeaderLen:], wire.RunMessages, wire.MessageHeaderLen+10, wire.TopicID("a.b"), seq)
	b[wire.DataHeaderLen+wire.RunHeaderLen] = 10
	return b[:wire.DataHeaderLen+wire.RunHeaderLen+wire.MessageHeaderLen+10]
}

func heartbeatOf(epoch events.ID, flags wire.Flags, hb wire.Heartbeat) []byte {
	hb.PacketSize = 512
	return wire.AppendHeartbeat(nil, wire.Header{GroupTag: 9, Publisher: 7, Epoch: epoch, Flags: flags}, &hb)
}

// count returns how many packets have reached a step of a loss.
func (l *log) count(step LossStep) (n int) {
	for _, e := range l.losses {
		if e.Step == step {
			n += int(e.Count)
		}
	}
	return n
}

// opaque is a message layer that reads nothing.
type opaque struct{}

func (opaque) Check([]byte) ([]byte, error)                                  { return nil, wire.ErrUnsupported }
func (opaque) Readable([]byte) []byte                                        { return nil }
func (opaque) Packet(uint64, []byte, bool) (follow bool)                     { return false }
func (opaque) Delivered(uint64)                                              {}
func (opaque) Lost(seq, end uint64)                                          {}
func (opaque) Fetch(first, end uint64)                                       {}
func (opaque) Came(Instant, uint64, []byte)                                  {}
func (opaque) Begin(Instant) bool                                            { return true }
func (opaque) Fetched()                                                      {}
func (opaque) Join(_, _ Instant) bool                                        { return true }
func (opaque) JoinDue() Instant                                              { return Never }
func (opaque) Reread()                                                       {}
func (opaque) Overrun()                                                      {}
func (opaque) Status(_ *wire.Status, want bool) (wire.Flags, []uint64, bool) { return 0, nil, want }
func (opaque) Heartbeat(_ wire.Flags, asked uint64) (due bool)               { return asked != 0 }
func (opaque) Removed()                                                      {}

// want sets whether messages are wanted, and informs publishers.
func want(r *Receiver, now Instant, wanted bool) {
	r.SetWanted(wanted)
	r.WantedChanged(now)
}

// listing is a message layer with topics in its part of statuses.
type listing struct {
	opaque
	topics []uint64
	open   bool // with a question
}

func (l *listing) Status(s *wire.Status, want bool) (flags wire.Flags, topics []uint64, all bool) {
	if l.open {
		s.Question, flags = 1, wire.FlagWantTopics
	}
	if all = want || l.open; all {
		topics = l.topics
	}
	return flags, topics, all
}

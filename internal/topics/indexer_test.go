package topics

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
	"github.com/fanfaremq/fanfare/transport"
)

// index writes what is due of index rounds.
func (b *bench) index() {
	b.t.Helper()
	for n := 0; b.now >= b.m.IndexDue(); n++ {
		if n == 1000 {
			b.t.Fatal("an index round remains due")
		}
		b.s.Grant(b.w.Packets)
		b.m.WriteIndex(b.now, b.w)
		b.m.Assign(b.now, b.w, true)
	}
}

// indexed writes what is due of index rounds, and returns the runs of all packets to be sent, as namesIn does.
func (b *bench) indexed() string {
	b.t.Helper()
	b.index()
	packets := of(wire.TypeData, b.next())
	for i, p := range packets {
		if wire.CodecOf(p.b) != wire.CodecNone {
			packets[i].b = bytes.Clone(b.m.encoder.Readable(p.b))
		}
	}
	return strings.ReplaceAll(namesIn(b.t, packets), ", ", " ")
}

// say assigns a message of each topic, in a packet of its own.
func (b *bench) say(names ...string) {
	b.t.Helper()
	for _, name := range names {
		b.put(b.topic(name), 10)
		if why := b.m.Assign(b.now, b.w, true); why != events.ReasonNone {
			b.t.Fatal(why)
		}
		b.next()
	}
}

// question handles a status with a question: receiver (negative: it is no member), number, since and topics; "+": it may
// want others. "!": what is due is written first.
func (b *bench) question(text string) {
	b.t.Helper()
	h, f := b.header(), strings.Fields(text)
	if f[0] == "!" {
		b.index()
		b.now, f = b.now.Add(time.Second), f[1:]
	}
	var receiver, number, since int
	if _, err := fmt.Sscan(strings.Join(f[:3], " "), &receiver, &number, &since); err != nil {
		b.t.Fatal(err)
	}
	h.Flags = wire.FlagWantTopics
	if receiver < 0 {
		receiver, h.Flags = -receiver, h.Flags|wire.FlagLeaving
	}
	var ids []uint64
	for _, name := range f[3:] {
		if name == "+" {
			h.Flags |= wire.FlagMoreTopics
		} else {
			ids = append(ids, wire.TopicID(name))
		}
	}
	st := wire.Status{Receiver: uint64(receiver), Next: b.s.Transmitted(), Limit: 1 << 40, Echo: uint64(b.now)}
	st.Since, st.Question = uint64(since), uint32(number)
	b.s.Handle(b.now, wire.AppendStatus(nil, h, &st, ids), nil)
}

// A round answers all questions that wait, each once, with the topics that the receivers want and that have messages
// from the least sequence asked about on. docs/protocol §9.3.
func TestIndexRounds(t *testing.T) {
	strangers, answered := "-9 1 4", "[4* 9"
	for i := 10; i < 30; i++ {
		strangers += fmt.Sprintf("; -%d 1 4", i)
		if i < 9+maxStrangers {
			answered += fmt.Sprint(" ", i)
		}
	}
	for name, c := range map[string][2]string{
		"a topic":                      {"1 1 0 x", "[0 1 x=2 ]4"},
		"an unknown topic":             {"1 1 0 u", "[0 1 ]4"},
		"a topic without data":         {"1 1 0 w", "[0 1 w=0 ]4"},
		"none of its messages":         {"1 1 1 w z y", "[1 1 z=1 y=1 ]4"},
		"other topics possible":        {"1 1 0 x +", "[0* 1 w=0 x=2 y=1 z=1 ]4"},
		"no topic stated":              {"1 1 0", "[0* 1 w=0 x=2 y=1 z=1 ]4"},
		"since the last packet":        {"1 1 3 +", "[3* 1 z=1 ]4"},
		"since the next one":           {"1 1 4 +", "[4* 1 ]4"},
		"two members":                  {"1 1 3 x z; 2 1 2 z x", "[2 1 2 x=2 z=1 ]4"},
		"the first since earlier":      {"1 1 2 x z; 2 1 3 z x", "[2 1 2 x=2 z=1 ]4"},
		"two, one of all topics":       {"1 1 3 x; 2 1 2 z +", "[2* 1 2 x=2 z=1 ]4"},
		"asked again before the round": {"1 1 3 x; 1 2 0 y", "[0 1 y=1 ]4"},
		"asked again after it":         {"1 1 3 y z; ! 1 1 3 y z", "[3 1 z=1 ]4"},
		"a further question after it":  {"1 1 3 y z; ! 1 2 1 y", "[3 1 z=1 ]4 [1 1 y=1 ]4"},
		"not a member":                 {"-9 1 3; -9 1 3; 1 1 3 x", "[3* 1 9 z=1 ]4"},
		"many that are no members":     {strangers, answered + " ]4"},
		"a member that leaves":         {"1 1 0 x; leave", ""},
		"the end":                      {"1 1 0 x; end", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.topic("w")
			b.say("x", "y", "x", "z")
			for _, text := range strings.Split(c[0], "; ") {
				switch text {
				case "leave":
					st := wire.Status{Receiver: 1, Next: 4, Limit: 1 << 40, Echo: uint64(b.now)}
					b.s.Handle(b.now, b.statusOf(wire.FlagLeaving, st), nil)
				case "end":
					b.s.End(b.now)
				default:
					b.question(text)
				}
			}
			if got := b.indexed(); got != c[1] {
				t.Errorf("%q, want %q", got, c[1])
			}
		})
	}
}

// The run that begins a round names as many receivers as fit; the next round answers the others. docs/protocol §9.3.
func TestIndexRoundOfManyMembers(t *testing.T) {
	b := newBench(t, nil)
	b.say("x")
	const members, fit = 50, (512 - wire.DataHeaderLen - wire.RunHeaderLen - wire.IndexHeaderLen) / wire.IndexEntryLen
	for i := range members {
		b.question(fmt.Sprint(100+i, " 1 0 x"))
	}
	for _, want := range []int{fit, members - fit} {
		got := ""
		for before := b.m.Stats().IndexRounds; b.m.Stats().IndexRounds == before; b.now = max(b.now+1, b.m.IndexDue()) {
			b.s.Grant(b.w.Packets)
			b.m.WriteIndex(b.now, b.w)
			b.m.Assign(b.now, b.w, true)
			got += namesIn(t, of(wire.TypeData, b.next())) + " "
		}
		if n := len(strings.Fields(got)) - 3; n != want { // without the beginning, the topic and the end
			t.Errorf("a round answers %d receivers, want %d: %s", n, want, got)
		}
	}
	if b.now = b.now.Add(time.Minute); b.indexed() != "" {
		t.Error("a third round")
	}
}

// The topics of a round are chosen when the run that begins it has its sequence: messages that other writers put before
// it count, and so does that packet. docs/protocol §9.3.
func TestIndexRoundCountsMessagesOfOtherWriters(t *testing.T) {
	b := newBench(t, nil)
	b.say("x", "y", "z")
	other := b.m.NewWriter()
	b.s.Grant(other.Packets)
	other.Append(b.topic("y"), make([]byte, 10))
	b.put(b.topic("z"), 10)
	b.question("1 1 3 x y z")
	b.s.Grant(b.w.Packets)
	b.m.WriteIndex(b.now, b.w)
	b.m.WriteIndex(b.now.Add(time.Second), b.w) // it has no sequence yet
	b.m.Assign(b.now, other, true)
	b.m.Assign(b.now, b.w, true)
	b.now = b.now.Add(2 * time.Second)
	if got, want := namesIn(t, of(wire.TypeData, b.next()))+"; "+b.indexed(), "1, 1 [3 1; y=2 z=2 ]3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A long round is written in parts, between which other messages go, and the next one waits for as long as it took at
// its rate. docs/protocol §9.3.
func TestIndexRoundsHaveARate(t *testing.T) {
	b := newBench(t, func(c *reliable.SenderConfig) {
		c.PacketSize, c.MaxTrain, c.MaxTrainBytes, c.WindowPackets, c.Flow = 1472, 44, 65000, 4096, reliable.NoFlow{}
	})
	const topics = 10_000
	for i := range topics {
		b.topic(fmt.Sprint("a topic with a rather long name, of which there are many: ", i))
	}
	b.say("x")
	var pauses []time.Duration
	for number, size := 1, 0; len(pauses) < 20; number++ {
		b.question(fmt.Sprint("1 ", number, " ", (1-number%2)<<20, " +")) // every second round is short
		lead, rounds := b.s.Lead(), b.m.Stats().IndexRounds
		b.index()
		if n := b.s.Lead() - lead; n > indexPart+2 {
			t.Fatalf("%d packets at once", n)
		}
		for _, p := range of(wire.TypeData, b.next()) {
			size += len(p.b)
		}
		due := b.m.index.due
		if b.m.Stats().IndexRounds > rounds {
			b.question(fmt.Sprint("1 ", number+1, " 0 +"))
			due = b.m.IndexDue()
			if pauses = append(pauses, due.Sub(b.now)); pauses[len(pauses)-1] < time.Duration(size)*time.Second/indexRate*9/10 {
				t.Errorf("%v after a round of %d bytes", pauses, size)
			}
			size, number = 0, number+2-number%2
		} else if due < b.now.Add(indexEvery) {
			t.Fatalf("the next part is due after %v", due.Sub(b.now))
		}
		b.now = due
	}
	if long := slices.Max(pauses); long != maxIndexPause {
		t.Errorf("pauses %v while questions come without a break, want up to %v", pauses, maxIndexPause)
	}
	for due := b.now; due != reliable.Never; due = b.m.IndexDue() {
		b.now = due
		b.indexed()
	}
	b.now = b.now.Add(10 * time.Second)
	b.question("1 1000 0 x")
	if b.index(); b.m.index.rest != b.now.Add(indexPause) {
		t.Errorf("a pause of %v after a quiet time", b.m.index.rest.Sub(b.now))
	}
}

// No round is written while no packet gets a sequence, or if there is no memory for one. docs/protocol §9.3.
func TestIndexRoundsWaitForRoom(t *testing.T) {
	b := newBench(t, nil)
	b.say("x")
	b.question("1 1 0 x")
	b.s.Handle(b.now, b.statusOf(0, wire.Status{Receiver: 2, Next: 1, Limit: 1, Echo: uint64(b.now)}), nil)
	if got := b.indexed(); got != "" || b.s.Blocked() != events.ReasonFlow {
		t.Errorf("%q, blocked %v, due %v", got, b.s.Blocked(), b.m.IndexDue())
	}
	b.status(2, 1, 100, 0)
	b.m.Assign(b.now, b.w, true)
	b.now = b.now.Add(time.Millisecond)
	if got := b.indexed(); got != "[0 1 x=1 ]1" {
		t.Errorf("with room: %q", got)
	}

	b = newBench(t, func(c *reliable.SenderConfig) { c.Flow = reliable.NoFlow{} })
	var tr transport.Outbound
	for b.s.Grant(b.w.Packets) { // the transport releases no memory
		b.w.Append(b.topic("x"), make([]byte, b.m.MaxInPacket()))
		b.m.Assign(b.now, b.w, true)
		for b.s.Next(b.now, &tr) {
			b.s.Sent(b.now, tr.Count, 0)
		}
	}
	b.question("1 1 0 x")
	b.m.WriteIndex(b.now, b.w)
	if due := b.m.IndexDue(); b.s.Blocked() != events.ReasonNone || due <= b.now || due > b.now.Add(indexWait) {
		t.Errorf("without memory: due after %v", due.Sub(b.now))
	}
}

// The last round of a stream has all topics. A round in progress is completed before. docs/protocol §9.7.
func TestClosingIndexRound(t *testing.T) {
	long := strings.Fields("x" + strings.Repeat(" y", 40))
	for name, c := range map[string]struct {
		begin func(b *bench)
		want  string
	}{
		"nothing published":   {func(b *bench) { b.topic("x") }, ""},
		"a pending message":   {func(b *bench) { b.put(b.topic("x"), 10) }, "x=0 0 [0* x=1 ]1"},
		"all in the window":   {func(b *bench) { b.topic("w"); b.say("x", "y") }, "[0* w=0 x=1 y=1 ]3"},
		"what has left it":    {func(b *bench) { b.say(long...) }, "[0* x=1 y=X ]2"},
		"a question":          {func(b *bench) { b.say(long...); b.question("1 1 0 x") }, "[0* x=1 y=X ]2"},
		"a round in progress": {func(b *bench) { b.say("x", "y"); b.question("1 1 0 x"); b.m.WriteIndex(b.now, b.w) }, "[0 1 x=1 ]2 [0* x=1 y=1 ]2"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, func(c *reliable.SenderConfig) { c.Flow = reliable.NoFlow{} })
			c.begin(b)
			for n := 0; !b.m.CloseIndex(b.w); n++ {
				b.m.Assign(b.now, b.w, true)
				if b.s.Grant(b.w.Packets); n == 100 {
					t.Fatal("it never ends")
				}
			}
			if !b.m.CloseIndex(b.w) || c.want != "" && b.m.IndexDue() != reliable.Never {
				t.Error("it is not over")
			}
			b.m.Assign(b.now, b.w, true)
			if got := b.indexed(); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// keeper is a codec that keeps the runs.
type keeper struct {
	t    *testing.T
	runs [][]byte
}

func (*keeper) Kind() (wire.Codec, uint32) { return wire.CodecS2, 0 }

func (k *keeper) Pack(dst, runs []byte) []byte {
	if run, _, _ := wire.NextRun(runs); run.Kind == wire.RunIndex {
		k.t.Error("an index run is encoded")
	}
	k.runs = append(k.runs, bytes.Clone(runs))
	return append(dst, byte(len(k.runs)-1))
}

func (k *keeper) Unpack(dst []byte, p wire.Packed) ([]byte, error) {
	return append(dst, k.runs[p.Bytes[0]]...), nil
}

// Before members are asked whether they want a topic, its name is in the stream, once: otherwise patterns could not
// match it. docs/protocol §7.10.
func TestNamesOfAskedTopics(t *testing.T) {
	for _, x := range []*Encoder{nil, NewEncoder(&keeper{t: t}, 512)} {
		b := newBench(t, func(c *reliable.SenderConfig) { c.Packed = x != nil })
		b.m.encoder = x
		b.topic("w")
		b.say("x")
		b.topic("y")
		b.question("1 0 0 +")
		for range 2 {
			for _, name := range []string{"x", "y", "z"} {
				b.m.Ask(b.now, wire.TopicID(name)) // z is no topic of the stream
			}
			b.topic("z")
		}
		if got, want := b.indexed(), "y=0 z=0"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		b.say("y")
		b.put(b.topic("z"), 10)
		b.now = b.now.Add(time.Millisecond)
		b.question("1 1 0 +")
		if got, want := b.indexed(), "0 [0* 1 w=0 x=1 y=1 z=1 ]4"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

package topics

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/internal/wiretest"
	"github.com/fanfaremq/fanfare/pubsub/events"
	"github.com/fanfaremq/fanfare/reliable"
)

// run appends a run with messages of the given sizes.
func run(b []byte, topic, number uint64, sizes ...int) []byte {
	var body []byte
	for _, n := range sizes {
		body = append(body, byte(n), byte(n>>8))
		body = append(body, make([]byte, n)...)
	}
	h := make([]byte, wire.RunHeaderLen)
	wire.PutRunHeader(h, wire.RunMessages, len(body), topic, number)
	return append(append(b, h...), body...)
}

// fragment is a packet with one fragment.
func fragment(topic, number uint64, total, offset, n int) []byte {
	b := make([]byte, wire.RunHeaderLen+wire.FragmentHeaderLen+n)
	wire.PutRunHeader(b, wire.RunFragment, wire.FragmentHeaderLen+n, topic, number)
	wire.PutFragmentHeader(b[wire.RunHeaderLen:], total, offset)
	return b
}

// requestFirst marks the first of runs as a request.
func requestFirst(runs []byte) []byte {
	wire.SetRunFlags(runs, wire.RunFlagRequest)
	return runs
}

// stated appends a topic run.
func stated(b []byte, topic uint64, name string, number uint64) []byte {
	h := make([]byte, wire.RunHeaderLen+len(name))
	wire.PutTopicRun(h, topic, name)
	wire.SetRunNumber(h, number)
	return append(b, h...)
}

// part appends one fragment to the runs of a packet.
func part(b []byte, topic, number uint64, total, offset, n int) []byte {
	return append(b, fragment(topic, number, total, offset, n)...)
}

// items reads all items of rd as short texts.
func items(rd *Reader) []string { return itemsBy(rd, byItem) }

// Ways to read a packet. Each calls Next for the rest.
const (
	byItem      = iota // Next only
	byFollowing        // Following
	byRun              // Open and Run
	byOne              // One, Open and Run
	ways
)

// itemsBy reads all items of rd in the given way.
func itemsBy(rd *Reader, way int) []string {
	var out []string
	var it Item
	for {
		for way == byFollowing {
			t, number, _ := rd.Following()
			if t == nil {
				break
			}
			out = append(out, fmt.Sprintf("%s:%d", t.Name, number))
		}
		for way >= byRun {
			if way == byOne {
				if t, number, _ := rd.One(); t != nil {
					out = append(out, fmt.Sprintf("%s:%d", t.Name, number))
					continue
				}
			}
			if !rd.Open() {
				break
			}
			t, body, step, number := rd.Run()
			for {
				_, rest, ok := NextMessage(body, step, rd.MaxMessage())
				if !ok {
					break
				}
				out = append(out, fmt.Sprintf("%s:%d", t.Name, number))
				body = rest
				number++
			}
			rd.Took(body, number)
		}
		if !nextOf(rd, &it) {
			return out
		}
		name := "?"
		if it.Topic != nil {
			name = it.Topic.Name
		}
		switch {
		case it.Unknown:
			out = append(out, fmt.Sprintf("%s:unknown before %d", name, it.Number))
		case it.Lost > 0:
			out = append(out, fmt.Sprintf("%s:lost %d+%d", name, it.Number, it.Lost))
		default:
			out = append(out, fmt.Sprintf("%s:%d", name, it.Number))
		}
	}
}

// nextOf is rd.Next, and checks that it returns false after rd.Through has returned true.
func nextOf(rd *Reader, it *Item) bool {
	through := rd.Through()
	ok := rd.Next(it)
	if through && ok {
		panic(fmt.Sprintf("Next returned %+v after Through returned true, want false", *it))
	}
	return ok
}

// docs/protocol §9.2, §10.2, §10.5.
func TestReader(t *testing.T) {
	const x, y, z = 1, 2, 3
	type step struct {
		do   func(rd *Reader)
		want []string
	}
	packet := func(b []byte, want ...string) step {
		return step{func(rd *Reader) { rd.Packet(b) }, want}
	}
	skip := func(n uint64, want ...string) step {
		return step{func(rd *Reader) { rd.Skip(5, n, events.CauseGone) }, want}
	}
	state := func(number uint64, want ...string) step { return packet(stated(nil, x, "x", number), want...) }
	end := func(want ...string) step { return step{(*Reader).End, want} }
	for _, c := range []struct {
		name  string
		start uint64
		max   int
		steps []step
	}{
		{"messages of wanted topics", 0, 1000, []step{
			packet(run(run(run(nil, x, 0, 1, 2), z, 0, 5), y, 0, 3), "x:0", "x:1", "y:0"),
			packet(run(nil, x, 2, 1), "x:2"),
			end(),
		}},
		{"a gap is reported before the next message of its topic", 0, 1000, []step{
			packet(run(nil, x, 0, 1), "x:0"),
			skip(3),
			packet(run(nil, y, 0, 1), "y:0"),
			packet(run(nil, x, 4, 1), "x:lost 1+3", "x:4"),
		}},
		{"fragments among other runs", 0, 1000, []step{
			packet(part(run(nil, x, 0, 1), x, 1, 300, 0, 100), "x:0"),
			packet(part(run(part(nil, x, 1, 300, 100, 200), y, 0, 3), x, 2, 10, 0, 4), "x:1", "y:0"),
			packet(run(part(part(nil, x, 2, 10, 4, 3), x, 2, 10, 7, 3), x, 3, 1), "x:2", "x:3"),
		}},
		{"the rest of a lost message before others in its packet", 0, 1000, []step{
			packet(run(nil, x, 0, 1), "x:0"),
			skip(1),
			packet(run(part(nil, x, 3, 10, 4, 6), x, 4, 1, 2), "x:lost 1+3", "x:4", "x:5"),
		}},
		{"a gap before a message in one fragment", 0, 1000, []step{
			packet(run(nil, x, 0, 1), "x:0"),
			skip(1),
			packet(run(part(nil, x, 3, 10, 0, 10), x, 4, 1), "x:lost 1+2", "x:3", "x:4"),
		}},
		{"a late joiner's first packet begins within a message", 10, 1000, []step{
			packet(run(part(nil, x, 7, 10, 4, 6), x, 8, 1), "x:8"),
		}},
		{"a gap at the very beginning", 0, 1000, []step{
			skip(1),
			packet(run(nil, x, 2, 1), "x:lost 0+2", "x:2"),
		}},
		{"a topic that is wanted after a loss at the very beginning", 0, 1000, []step{
			{func(rd *Reader) {
				rd.Drop(x)
				rd.Skip(0, 1, events.CauseGone)
				rd.Want(x, "x", nil)
			}, nil},
			packet(run(nil, x, 2, 1), "x:unknown before 2", "x:2"),
		}},
		{"no gap before a late joiner's first message", 10, 1000, []step{
			packet(run(nil, x, 50, 1), "x:50"),
		}},
		{"a late joiner's loss before its first message", 10, 1000, []step{
			packet(run(nil, x, 50, 1), "x:50"),
			skip(1),
			packet(run(nil, y, 7, 1), "y:unknown before 7", "y:7"),
			packet(run(nil, x, 51, 1), "x:51"),
		}},
		{"a topic run shows the losses of a silent topic", 0, 1000, []step{
			packet(run(nil, x, 0, 1), "x:0"),
			skip(1),
			state(3, "x:lost 1+2"),
			packet(run(nil, x, 3, 1), "x:3"),
		}},
		{"topic runs among messages", 0, 1000, []step{
			packet(run(stated(run(stated(nil, x, "x", 0), x, 0, 1), x, "x", 1), x, 1, 1), "x:0", "x:1"),
			skip(1),
			packet(run(stated(run(stated(run(nil, y, 0, 1), x, "x", 4), x, 4, 1), z, "z", 9), y, 2, 1), "y:0", "x:lost 2+2", "x:4", "y:lost 1+1", "y:2"),
		}},
		{"a topic run before a late joiner's first message", 10, 1000, []step{
			state(4),
			skip(1),
			packet(run(nil, x, 6, 1), "x:lost 4+2", "x:6"),
		}},
		{"a topic run after a late joiner's loss", 10, 1000, []step{
			skip(1),
			state(4, "x:unknown before 4"),
			packet(run(nil, x, 4, 1), "x:4"),
		}},
		{"a topic run of a topic without messages after a late joiner's loss", 10, 1000, []step{
			skip(1),
			state(0),
			packet(run(nil, x, 1, 1), "x:lost 0+1", "x:1"),
		}},
		{"a topic run with an earlier number", 0, 1000, []step{
			packet(run(nil, x, 0, 1, 1), "x:0", "x:1"),
			skip(1),
			state(1),
			packet(run(nil, x, 3, 1), "x:lost 2+1", "x:3"),
		}},
		{"without a listing the end reports an unknown loss", 0, 1000, []step{
			packet(run(nil, x, 0, 1), "x:0"),
			skip(1),
			end("?:unknown before 0"),
			end(),
			packet(run(nil, x, 2, 1), "x:lost 1+1", "x:2"),
		}},
		{"fragments", 0, 1000, []step{
			packet(fragment(x, 0, 30, 0, 10)),
			packet(fragment(x, 0, 30, 10, 10)),
			packet(fragment(x, 0, 30, 20, 10), "x:0"),
			packet(run(nil, x, 1, 1), "x:1"),
		}},
		{"a message without its first fragment", 0, 1000, []step{
			skip(1),
			packet(fragment(x, 0, 30, 10, 10)),
			packet(fragment(x, 0, 30, 20, 10), "x:lost 0+1"),
			packet(run(nil, x, 1, 1), "x:1"),
		}},
		{"a message without its last fragment", 0, 1000, []step{
			packet(fragment(x, 0, 30, 0, 10)),
			skip(2),
			packet(run(nil, x, 1, 1), "x:lost 0+1", "x:1"),
		}},
		{"a message without its last fragment, a topic run behind it", 0, 1000, []step{
			packet(fragment(x, 0, 30, 0, 10)),
			skip(1),
			state(1, "x:lost 0+1"),
			packet(run(nil, x, 1, 1), "x:1"),
		}},
		{"a message and the one before it", 0, 1000, []step{
			skip(2),
			packet(fragment(x, 1, 10, 0, 10), "x:lost 0+1", "x:1"),
		}},
		{"an abandoned message is no gap", 0, 1000, []step{
			packet(fragment(x, 0, 30, 0, 10)),
			packet(run(nil, x, 0, 1), "x:0"),
			packet(fragment(x, 1, 30, 0, 10)),
			packet(fragment(x, 1, 20, 0, 20), "x:1"),
		}},
		{"in progress at the join", 10, 1000, []step{
			packet(fragment(x, 4, 30, 10, 10)),
			packet(fragment(x, 4, 30, 20, 10)),
			packet(run(nil, x, 5, 1), "x:5"),
		}},
		{"in progress at the join, abandoned", 10, 1000, []step{
			packet(fragment(x, 4, 30, 10, 10)),
			packet(fragment(x, 4, 20, 0, 10)),
			packet(fragment(x, 4, 20, 10, 10), "x:4"),
			packet(run(nil, x, 5, 1), "x:5"),
		}},
		{"in progress at the join, abandoned, a topic run behind it", 10, 1000, []step{
			packet(fragment(x, 4, 30, 10, 10)),
			state(4),
			packet(run(nil, x, 4, 1), "x:4"),
		}},
		{"in progress at the join, after a message of another topic", 10, 1000, []step{
			packet(fragment(y, 1, 20, 0, 10)),
			packet(fragment(y, 1, 20, 10, 10), "y:1"),
			packet(fragment(x, 4, 30, 10, 10)),
			packet(run(fragment(x, 4, 30, 20, 10), x, 5, 1), "x:5"),
		}},
		{"in progress when its topic is wanted, losses before", 0, 1000, []step{
			{func(rd *Reader) {
				rd.Drop(x)
				rd.Packet(run(nil, y, 0, 1))
				rd.Skip(5, 3, events.CauseGone)
				rd.Begun()
				rd.Want(x, "x", nil)
			}, []string{"y:0"}},
			packet(fragment(x, 4, 30, 10, 10)),
			packet(stated(fragment(x, 4, 30, 20, 10), x, "x", 5), "x:unknown before 5"),
			packet(run(nil, x, 5, 1), "x:5"),
		}},
		{"in progress at the join, losses within", 10, 1000, []step{
			packet(fragment(x, 4, 40, 10, 10)),
			skip(1),
			packet(fragment(x, 4, 40, 30, 10), "x:unknown before 4", "x:lost 4+1"),
			packet(run(nil, x, 5, 1), "x:5"),
		}},
		{"in progress at the join, loss after a topic run that counts it", 10, 1000, []step{
			packet(fragment(x, 4, 30, 10, 10)),
			packet(stated(fragment(x, 4, 30, 20, 10), x, "x", 5)),
			skip(1),
			packet(run(nil, x, 5, 1), "x:5"),
		}},
		{"a message without its first fragment, number unknown", 26, 1000, []step{
			skip(2),
			packet(fragment(y, 3, 20, 10, 10), "y:unknown before 3", "y:lost 3+1"),
			packet(run(nil, y, 4, 1), "y:4"),
		}},
		{"a message without its first fragment, a topic run before its start", 10, 1000, []step{
			state(4),
			skip(1),
			packet(fragment(x, 4, 30, 10, 10)),
			packet(fragment(x, 4, 30, 20, 10), "x:lost 4+1"),
			packet(run(nil, x, 5, 1), "x:5"),
		}},
		{"a message that is too long", 0, 20, []step{
			packet(fragment(x, 0, 30, 0, 20)),
			packet(fragment(x, 0, 30, 20, 10), "x:lost 0+1"),
			packet(run(nil, x, 1, 1), "x:1"),
		}},
		{"numbers that decrease", 0, 1000, []step{
			packet(run(nil, x, 0, 1, 1), "x:0", "x:1"),
			packet(run(nil, x, 1, 1)),
			packet(run(nil, x, 2, 1), "x:2"),
		}},
		{"single messages that are requests, too long, unwanted or empty", 0, 20, []step{
			packet(requestFirst(run(run(run(run(run(nil, x, 0, 20), x, 1, 21), z, 0, 1), y, 0, 0), x, 2, 3)), "x:0", "x:lost 1+1", "y:0", "x:2"),
		}},
		{"a packet that was read in part", 0, 1000, []step{
			{func(rd *Reader) {
				rd.Packet(run(nil, x, 0, 1, 1, 1))
				var it Item
				rd.Next(&it)
				rd.Packet(run(nil, x, 3, 1))
			}, []string{"x:lost 1+2", "x:3"}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for way := range ways {
				rd := NewReader(c.start, c.max)
				rd.Want(x, "x", nil)
				rd.Want(y, "y", nil)
				for i, s := range c.steps {
					s.do(rd)
					if got := itemsBy(rd, way); !slices.Equal(got, s.want) {
						t.Errorf("step %d, way %d: items %v, want %v", i, way, got, s.want)
					}
				}
			}
		})
	}
}

func TestReaderTopicsAreAddedAndRemoved(t *testing.T) {
	rd := NewReader(0, 1000)
	rd.Want(1, "x", nil)
	rd.Packet(run(run(nil, 1, 0, 1), 2, 0, 1))
	if got := items(rd); !slices.Equal(got, []string{"x:0"}) {
		t.Errorf("only x is wanted: items %v, want x:0", got)
	}
	rd.Want(2, "y", nil) // its earlier messages are no gap
	rd.Packet(run(run(nil, 1, 1, 1), 2, 1, 1))
	if got := items(rd); !slices.Equal(got, []string{"x:1", "y:1"}) {
		t.Errorf("x and y are wanted: items %v, want x:1 and y:1", got)
	}
	rd.Drop(1)
	rd.Packet(run(run(nil, 1, 2, 1), 2, 2, 1))
	if got := items(rd); !slices.Equal(got, []string{"y:2"}) {
		t.Errorf("only y is wanted: items %v, want y:2", got)
	}
}

// A reader neither panics nor loops on any packet that ParseData accepts.
func TestReaderAcceptsAnyParsedPacket(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	var it Item
	for range 2000 {
		rd := NewReader(rng.Uint64N(2), 1000)
		for i := range uint64(rng.IntN(3)) {
			rd.Want(i, "t", nil)
		}
		for range 20 {
			b := wiretest.Data(rng.Uint64N(100), wiretest.Run(wire.RunMessages, "a.b", 0, "\x0a\x00"+string(make([]byte, 10))))
			for len(b) < 200 {
				switch rng.IntN(4) {
				case 0:
					b = run(b, rng.Uint64N(4), rng.Uint64N(10), rng.IntN(5), rng.IntN(5))
				case 1:
					b = append(b, fragment(rng.Uint64N(4), rng.Uint64N(10), rng.IntN(40), rng.IntN(40), rng.IntN(20))...)
				case 2:
					b = stated(b, rng.Uint64N(4), "t", rng.Uint64N(10))
				case 3:
					b[48+rng.IntN(len(b)-48)] ^= byte(rng.Uint32())
				}
			}
			d, err := wire.ParseData(b)
			if err != nil {
				continue
			}
			rd.Packet(d.Runs)
			for n := 0; ; n++ {
				if rng.IntN(2) == 0 {
					rd.One()
				}
				if rng.IntN(2) == 0 && rd.Open() {
					_, body, step, number := rd.Run()
					_, rest, ok := NextMessage(body, step, rd.MaxMessage())
					if ok {
						number++
					}
					rd.Took(rest, number)
				} else if !nextOf(rd, &it) {
					break
				}
				if n > len(b) {
					t.Fatalf("more than %d reads from a packet of %d bytes, want at most one per byte", n, len(b))
				}
			}
			if rng.IntN(4) == 0 {
				rd.Skip(rng.Uint64N(100), 1, events.CauseGone)
			}
		}
	}
}

// A reader reuses the memory of a large message, and frees it after unusedPackets packets without one.
// docs/protocol §12.3.
func TestReaderFreesMemoryOfLargeMessages(t *testing.T) {
	const size, piece = 4 << 20, 60_000
	rd := NewReader(0, 16<<20)
	rd.Want(5, "x", nil)
	b := make([]byte, wire.RunHeaderLen+wire.FragmentHeaderLen+piece)
	var it Item
	number := uint64(0)
	large := func() {
		t.Helper()
		got := 0
		for off := 0; off < size; off += piece {
			n := min(piece, size-off)
			wire.PutRunHeader(b, wire.RunFragment, wire.FragmentHeaderLen+n, 5, number)
			wire.PutFragmentHeader(b[wire.RunHeaderLen:], size, off)
			for rd.Packet(b[:wire.RunHeaderLen+wire.FragmentHeaderLen+n]); rd.Next(&it); {
				got = len(it.Data)
			}
		}
		if number++; got != size {
			t.Fatalf("the message has %d bytes, want %d", got, size)
		}
	}
	small := func(packets int) {
		for range packets {
			wire.PutRunHeader(b, wire.RunMessages, 2, 5, number)
			b[wire.RunHeaderLen], b[wire.RunHeaderLen+1] = 0, 0
			for rd.Packet(b[:wire.RunHeaderLen+2]); rd.Next(&it); {
				number++
			}
		}
	}
	for range 3 {
		large()
		small(unusedPackets / 2)
		if cap(rd.partial) < size {
			t.Errorf("%d bytes are kept for the next large message, want at least %d", cap(rd.partial), size)
		}
	}
	small(unusedPackets)
	if cap(rd.partial) != 0 {
		t.Errorf("%d bytes are kept after %d packets without a large message, want 0", cap(rd.partial), unusedPackets)
	}
	large()
}

// Padding at the end of a packet is not read again after a gap, when the packet's memory has another packet.
func TestPaddingIsNotReadAgain(t *testing.T) {
	id := wire.TopicID("x")
	message := run(nil, id, 0, 4)
	packet := append(slices.Clone(message), make([]byte, len(message))...)
	r := NewReader(0, wire.MaxMessage)
	r.Want(id, "x", nil)
	r.Packet(packet)
	var it Item
	if !r.Next(&it) || it.Number != 0 || !r.Through() {
		t.Fatalf("got %+v, want message 0, and nothing else", it)
	}
	copy(packet[len(message):], run(nil, id, 1, 4))
	if r.Take(&reliable.Event{Kind: reliable.EventGap, Count: 1, Cause: events.CauseGone}); !r.Through() || r.Next(&it) {
		t.Errorf("got %+v from memory that was returned, want nothing", it)
	}
}

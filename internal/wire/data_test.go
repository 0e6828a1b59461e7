package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// goldenDataBounds has the lengths to which goldenData can be truncated and remain a valid packet: between runs, and
// within the padding.
var goldenDataBounds = []int{48, 80, 100, 123, 124, 125, 126, 127}

var goldenFragmentBounds = []int{48, 80}

var goldenEmptyDataBounds = []int{48}

// dataDesc is a data packet as comparable values.
type dataDesc struct {
	Seq        uint64
	PacketSize int
	Runs       []runDesc
}

type runDesc struct {
	Kind          RunKind
	Flags         RunFlags
	Topic, Number uint64
	Messages      []string // of a message run
	Total, Offset int      // of a fragment run
	Fragment      string
	Name          string // of a topic run
	State         *stateDesc
	Index         *indexDesc
	Malformed     string // the malformed part of the body
}

// stateDesc is the body of a state run.
type stateDesc struct {
	Marks StateMarks
	Round uint32
	Bytes string
}

// append appends the packet as a publisher builds it: in place, with the lengths, numbers and sequence last.
func (d *dataDesc) append(b []byte, h Header, padding int) []byte {
	start := len(b)
	b = slices.Grow(b, DataHeaderLen)[:start+DataHeaderLen]
	PutDataHeader(b[start:], h, d.PacketSize)
	for _, r := range d.Runs {
		at := len(b)
		b = slices.Grow(b, RunHeaderLen)[:at+RunHeaderLen]
		PutRunHeader(b[at:], r.Kind, 0xbad, r.Topic, 0xbadbadbadbadbadb)
		for _, m := range r.Messages {
			b = append(b, byte(len(m)), byte(len(m)>>8))
			b = append(b, m...)
		}
		if r.Fragment != "" {
			n := len(b)
			b = slices.Grow(b, FragmentHeaderLen)[:n+FragmentHeaderLen]
			PutFragmentHeader(b[n:], r.Total, r.Offset)
			b = append(b, r.Fragment...)
		}
		b = append(b, r.Name...)
		if s := r.State; s != nil {
			n := len(b) - RunHeaderLen
			b = append(b, make([]byte, StateHeaderLen+len(s.Bytes))...)
			PutStateRun(b[n:], r.Topic, r.Number, &State{Marks: s.Marks, Round: s.Round, Bytes: []byte(s.Bytes)})
		}
		if r.Index != nil {
			b = r.Index.append(b, at, r.Number)
			binary.LittleEndian.PutUint64(b[at+4:], r.Topic)
		}
		b = append(b, r.Malformed...)
		SetRunFlags(b[at:], r.Flags)
		SetRunLength(b[at:], len(b)-at-RunHeaderLen)
		SetRunNumber(b[at:], r.Number)
	}
	b = append(b, make([]byte, padding)...)
	SetSeq(b[start:], d.Seq)
	return b
}

// describeData parses b and iterates over its runs and messages.
func describeData(tb testing.TB, b []byte) (dataDesc, error) {
	tb.Helper()
	p, err := ParseData(b)
	if err != nil {
		return dataDesc{}, err
	}
	d := dataDesc{Seq: p.Seq, PacketSize: p.PacketSize}
	at := 0
	r, rest, ok := NextRun(p.Runs)
	for ok {
		at += RunHeaderLen + len(r.Body)
		if cap(r.Body) != len(r.Body) {
			tb.Errorf("run %d: an append to its body would write into the next", len(d.Runs))
		}
		d.Runs = append(d.Runs, describeRun(tb, r))
		r, rest, ok = NextRun(rest)
	}
	if at < len(p.Runs) && p.Runs[at] != byte(RunPadding) {
		tb.Errorf("iteration ends at byte %d of %d, which is not padding", at, len(p.Runs))
	}
	if rest != nil || !reflect.DeepEqual(r, Run{}) {
		tb.Errorf("after the last run: %+v and %d bytes, want none", r, len(rest))
	}
	return d, nil
}

func describeRun(tb testing.TB, r Run) runDesc {
	tb.Helper()
	d := runDesc{Kind: r.Kind, Flags: r.Flags, Topic: r.Topic, Number: r.Number}
	switch r.Kind {
	case RunMessages:
		m, rest, ok := NextMessage(r.Body)
		for ok {
			if cap(m) != len(m) {
				tb.Errorf("message %d: an append to it would write into the next", len(d.Messages))
			}
			d.Messages = append(d.Messages, string(m))
			m, rest, ok = NextMessage(rest)
		}
		if m != nil {
			tb.Errorf("message %x after the last, want none", m)
		}
		d.Malformed = string(rest)
	case RunFragment:
		f, err := ParseFragment(r.Body)
		if err != nil {
			d.Malformed = string(r.Body)
			break
		}
		if f.Offset < 0 || len(f.Bytes) == 0 || f.Offset+len(f.Bytes) > f.Total || f.Total > MaxMessage {
			tb.Errorf("fragment of %d bytes at %d of %d, want it within a message of at most %d", len(f.Bytes), f.Offset, f.Total, MaxMessage)
		}
		d.Total, d.Offset, d.Fragment = f.Total, f.Offset, string(f.Bytes)
	case RunTopic:
		d.Name = string(r.Body)
	case RunState:
		s := ParseState(r.Body)
		d.State = &stateDesc{s.Marks, s.Round, string(s.Bytes)}
	case RunIndex:
		d.Index = describeIndex(tb, r.Body)
	default:
		tb.Errorf("run of the unknown kind %d", r.Kind)
	}
	return d
}

// docs/protocol §2.9, §2.10, §2.11, §2.12.
func TestDataGolden(t *testing.T) {
	for _, c := range []struct {
		name    string
		packet  []byte
		want    dataDesc
		flags   Flags
		padding int
	}{
		{"data", goldenData, goldenDataValue, FlagRepair, 4},
		{"fragment", goldenFragment, goldenFragmentValue, 0, 0},
		{"empty", goldenEmptyData, goldenEmptyDataValue, 0, 0},
	} {
		got, err := describeData(t, c.packet)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
		h := goldenHeaderOf(TypeNAK, c.flags)                                 // the type of the argument is ignored
		want := c.packet[:len(c.packet)-c.padding]                            // with zeros for padding
		want = append(want[:len(want):len(want)], make([]byte, c.padding)...) // in a copy
		testAppend(t, want, func(b []byte) []byte { return c.want.append(b, h, c.padding) })
	}
}

// docs/protocol §2.3, §13.3.
func TestDataErrors(t *testing.T) {
	g := goldenData
	testErrors(t, parse, []errorCase{
		{"sequence 0", change64(g, 32, 0), nil},
		{"sequence MaxSeq-1", change64(g, 32, MaxSeq-1), nil},
		{"sequence MaxSeq", change64(g, 32, MaxSeq), ErrMalformed},
		{"largest sequence", change64(g, 32, math.MaxUint64), ErrMalformed},

		{"packet size 0", change16(g, 40, 0), ErrMalformed},
		{"packet size below MinPacket", change16(g, 40, MinPacket-1), ErrMalformed},
		{"packet size MinPacket", change16(g, 40, MinPacket), nil},
		{"packet size MaxPacket", change16(g, 40, MaxPacket), nil},
		{"packet size above MaxPacket", change16(g, 40, MaxPacket+1), ErrMalformed},
		{"largest packet size", change16(g, 40, math.MaxUint16), ErrMalformed},
		{"packet as large as its size", append(bytes.Clone(g), make([]byte, 1472-len(g))...), nil},
		{"packet larger than its size", append(bytes.Clone(g), make([]byte, 1473-len(g))...), ErrMalformed},
		{"reserved bytes", change(g, 42, 1, 2, 3, 4, 5, 6), nil},

		{"unknown kind", change(g, 48, 6), ErrUnsupported},
		{"largest kind", change(g, 48, 255), ErrUnsupported},
		{"unknown kind of a later run", change(g, 100, 6), ErrUnsupported},
		{"unknown kind before a truncated run", change(change16(g, 102, 1000), 48, 6), ErrMalformed},
		{"unknown codec", change(change16(g, 42, 1000), 5, byte(LastCodec)+1), ErrUnsupported},
		{"unknown codec, and not shorter than the runs", change(change16(g, 42, uint16(len(g)-DataHeaderLen)), 5, byte(LastCodec)+1), ErrMalformed},
		{"state of 8 bytes", change(change16(g, 50, 12), 48, 4), nil},
		{"state of less than 8 bytes", change(g, 100, 4), ErrMalformed},
		{"the name of a topic", change(g, 100, 3), nil},
		{"the name of a topic of 0 bytes", change(g, 80, 3), ErrMalformed},
		{"the longest name of a topic", named(MaxTopicName), nil},
		{"a name of a topic that is too long", named(MaxTopicName + 1), ErrMalformed},
		{"padding from the start", change(g, 48, 0), nil},
		{"padding without the zero", change(g, 123, 1), ErrMalformed},
		{"reserved byte of a run", change(g, 49, 255), nil},
		{"run of the largest length", change16(g, 50, math.MaxUint16), ErrMalformed},
		{"run longer than the packet", change16(g, 50, 127-68+1), ErrMalformed},
		{"run as long as the packet, that ends within a message", change16(g, 50, 127-68), ErrMalformed},
		{"last run longer than the packet", change16(g, 102, 127-120+1), ErrMalformed},
		{"number MaxSeq", change64(g, 60, MaxSeq), ErrMalformed},
		{"number MaxSeq of the last run", change64(g, 112, MaxSeq), ErrMalformed},
		{"largest number", change64(g, 60, math.MaxUint64), ErrMalformed},
	})
}

// named returns a data packet with a topic name of n bytes.
func named(n int) []byte {
	d := dataDesc{PacketSize: MinPacket, Runs: []runDesc{{Kind: RunTopic, Topic: 1, Name: strings.Repeat("n", n)}}}
	return d.append(nil, goldenHeader, 0)
}

// Data.Topics reports whether a packet holds names of topics, or the begin or end of an index round.
func TestDataTopics(t *testing.T) {
	for _, c := range []struct {
		name   string
		packet []byte
		want   bool
	}{
		{"messages only", goldenData, false}, {"a fragment", goldenFragment, false}, {"nothing", goldenEmptyData, false},
		{"a name", named(3), true}, {"messages and a name", change(goldenData, 100, 3), true},
		{"the end of a round", indexed(0, IndexEnds, 7), true},
	} {
		if d, err := ParseData(c.packet); err != nil || d.Topics != c.want {
			t.Errorf("%s: topics %t, error %v, want %t", c.name, d.Topics, err, c.want)
		}
	}
}

// Every truncation within the header or a run is rejected. One between two runs, or within the padding, leaves a valid
// packet with fewer runs, which only the checksum detects. docs/protocol §13.1.
func TestDataTruncated(t *testing.T) {
	for _, c := range []struct {
		name   string
		packet []byte
		bounds []int
		want   dataDesc
	}{
		{"data", goldenData, goldenDataBounds, goldenDataValue},
		{"fragment", goldenFragment, goldenFragmentBounds, goldenFragmentValue},
		{"empty", goldenEmptyData, goldenEmptyDataBounds, goldenEmptyDataValue},
	} {
		for n := range len(c.packet) + 1 {
			short := bytes.Clone(c.packet[:n])[:n:n]
			if i := slices.Index(c.bounds, n); i >= 0 {
				want := c.want
				want.Runs = want.Runs[:min(i, len(want.Runs))]
				got, err := describeData(t, short)
				if err != nil || got.Seq != want.Seq || len(got.Runs) != len(want.Runs) ||
					len(want.Runs) > 0 && !reflect.DeepEqual(got.Runs, want.Runs) {
					t.Errorf("%s truncated to %d bytes, between runs: %+v, %v, want %+v", c.name, n, got, err, want)
				}
				continue
			}
			want := ErrMalformed
			if n < DataHeaderLen {
				want = ErrShort
			}
			if err := parse(short); err != want {
				t.Errorf("%s truncated to %d of %d bytes: %v, want %v", c.name, n, len(c.packet), err, want)
			}
			if _, err := ParseData(short); err != want {
				t.Errorf("%s truncated to %d of %d bytes, header not parsed: %v, want %v", c.name, n, len(c.packet), err, want)
			}
		}
	}
}

// Packets of random runs, with every amount of padding.
func TestDataBuild(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testSeed(t), 1))
	for range 2000 {
		size := MinPacket + rnd.IntN(1472-MinPacket+1)
		want := dataDesc{Seq: rnd.Uint64N(MaxSeq), PacketSize: size}
		left := size - DataHeaderLen
		if rnd.IntN(10) == 0 {
			offset := rnd.IntN(MaxMessage - MaxFragment(size))
			n := 1 + rnd.IntN(MaxFragment(size))
			want.Runs = []runDesc{{
				Kind: RunFragment, Topic: rnd.Uint64(), Number: rnd.Uint64N(MaxSeq),
				Total: offset + n + rnd.IntN(MaxMessage-offset-n+1), Offset: offset, Fragment: randomBytes(rnd, n),
			}}
			left -= RunHeaderLen + FragmentHeaderLen + n
		}
		for left >= RunHeaderLen && rnd.IntN(8) > 0 {
			r := runDesc{Kind: RunMessages, Flags: RunFlags(rnd.IntN(3)), Topic: rnd.Uint64(), Number: rnd.Uint64N(MaxSeq)}
			left -= RunHeaderLen
			if left > 0 && rnd.IntN(4) == 0 {
				r.Kind, r.Name = RunTopic, randomBytes(rnd, 1+rnd.IntN(min(left, MaxTopicName)))
				left -= len(r.Name)
				want.Runs = append(want.Runs, r)
				continue
			}
			if left >= StateHeaderLen && rnd.IntN(4) == 0 {
				left -= StateHeaderLen
				r.Kind, r.State = RunState, &stateDesc{StateMarks(rnd.Uint32()), rnd.Uint32(), randomBytes(rnd, rnd.IntN(left+1))}
				left -= len(r.State.Bytes)
				want.Runs = append(want.Runs, r)
				continue
			}
			if left >= IndexHeaderLen && rnd.IntN(4) == 0 {
				left -= IndexHeaderLen
				r.Kind, r.Index = RunIndex, randomIndex(rnd, left)
				left -= IndexEntryLen * len(r.Index.Answers)
				want.Runs = append(want.Runs, r)
				continue
			}
			for left >= MessageHeaderLen && rnd.IntN(4) > 0 {
				m := randomBytes(rnd, rnd.IntN(min(left-MessageHeaderLen, 300)+1))
				r.Messages = append(r.Messages, m)
				left -= MessageHeaderLen + len(m)
			}
			want.Runs = append(want.Runs, r)
		}
		padding := rnd.IntN(left + 1)
		b := want.append(dirty("", size), goldenHeader, padding)
		if h, err := ParseHeader(b); err != nil || h != goldenHeaderOf(TypeData, 0) {
			t.Fatalf("header %+v, error %v, want the golden header of a data packet", h, err)
		}
		got, err := describeData(t, b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

func randomBytes(rnd *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return string(b)
}

// The longest message and the longest fragment fill a packet to the last byte.
func TestDataFull(t *testing.T) {
	for _, size := range []int{MinPacket, 1472, 8972, MaxPacket} {
		for _, r := range []runDesc{
			{Kind: RunMessages, Messages: []string{strings.Repeat("m", MaxInPacket(size))}},
			{Kind: RunFragment, Total: MaxMessage, Offset: MaxMessage - MaxFragment(size), Fragment: strings.Repeat("f", MaxFragment(size))},
		} {
			want := dataDesc{PacketSize: size, Runs: []runDesc{r}}
			b := want.append(nil, goldenHeader, 0)
			if len(b) != size {
				t.Errorf("packet size %d, kind %d: packet of %d bytes, want the packet size", size, r.Kind, len(b))
			}
			got, err := describeData(t, b)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("packet size %d, kind %d: error %v, or another packet", size, r.Kind, err)
			}
		}
	}
}

// A packet with a run that does not consist of whole messages is refused completely, wherever in it the run is
// (docs/protocol §13.2).
func TestMessagesMalformed(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       []string // nil: malformed
	}{
		{"nothing", "", []string{}},
		{"half a length", "\x00", nil},
		{"no message", "\x01\x00", nil},
		{"a byte too few", "\x03\x00ab", nil},
		{"largest length", "\xff\xffab", nil},
		{"half a length after a message", "\x01\x00a\x00", nil},
		{"half a length after two equal messages", "\x01\x00a\x01\x00b\x01", nil},
		{"a byte too few after a message", "\x00\x00\x01\x00a\x02\x00b", nil},
		{"a byte too few after two equal messages", "\x02\x00ab\x02\x00cd\x02\x00e", nil},
		{"a byte too many after two equal messages", "\x02\x00ab\x02\x00cd\x03\x00ef", nil},
		{"empty messages", "\x00\x00\x00\x00", []string{"", ""}},
		{"one", "\x03\x00one", []string{"one"}},
		{"of one length", "\x01\x00a\x01\x00b\x01\x00c", []string{"a", "b", "c"}},
		{"of one length except the last", "\x01\x00a\x01\x00b\x02\x00cd", []string{"a", "b", "cd"}},
		{"lengths that a wrong step would accept", "\x01\x00a\x04\x00\x01\x00a\x01", []string{"a", "\x01\x00a\x01"}},
	} {
		value := dataDesc{PacketSize: MinPacket, Runs: []runDesc{
			{Kind: RunMessages, Topic: 2, Messages: []string{"first"}},
			{Kind: RunMessages, Topic: 1, Malformed: c.body},
			{Kind: RunMessages, Topic: 2, Number: 1, Messages: []string{"next"}},
		}}
		want := value
		want.Runs = slices.Clone(want.Runs)
		want.Runs[1].Messages, want.Runs[1].Malformed = c.want, ""
		if len(c.want) == 0 {
			want.Runs[1].Messages = nil
		}
		got, err := describeData(t, value.append(nil, goldenHeader, 7))
		if c.want == nil && err != ErrMalformed || c.want != nil && (err != nil || !reflect.DeepEqual(got, want)) {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, want)
		}
	}
	for _, c := range []struct {
		body string
		step int
	}{{"", 0}, {"\x00", 0}, {"\x00\x00", 2}, {"\x01\x00a", 3}, {"\x01\x00a\x01\x00b", 3}, {"\x01\x00a\x00\x00b", 0}, {"\x01\x00a\x01\x00", 0}, {"\x01\x00a\x01\x00bc", 0}, {"\x02\x00a", 0}} {
		if got := Step([]byte(c.body)); got != c.step {
			t.Errorf("step of %q: %d, want %d", c.body, got, c.step)
		}
	}
	// The longest message with a length of 16 bits.
	body := append([]byte{0xff, 0xff}, make([]byte, math.MaxUint16)...)
	if m, rest, ok := NextMessage(body); len(m) != math.MaxUint16 || len(rest) != 0 || !ok {
		t.Errorf("message of 65535 bytes: %d, %d left, %t, want all, 0 and true", len(m), len(rest), ok)
	}
	if m, rest, ok := NextMessage(body[:len(body)-1]); m != nil || len(rest) != len(body)-1 || ok {
		t.Errorf("message of 65535 bytes, one missing: %d, %d left, %t, want none, all and false", len(m), len(rest), ok)
	}
}

// NextRun does not panic for runs that ParseData has not checked.
func TestNextRunUnchecked(t *testing.T) {
	runs := goldenData[DataHeaderLen:]
	for n := range len(runs) + 1 {
		for _, kind := range []byte{0, 1, 3, 255} {
			b := change(runs[:n], 0)
			if n > 0 {
				b[0] = kind
			}
			r, _, ok := NextRun(b[:n:n])
			if want := n >= 32 && kind != 0; ok != want {
				t.Errorf("%d bytes, kind %d: %+v, %t, want %t", n, kind, r, ok, want)
			}
		}
	}
}

// docs/protocol §2.12, §13.3.
func TestFragmentErrors(t *testing.T) {
	g := goldenFragment[DataHeaderLen+RunHeaderLen:]
	parse := func(b []byte) error { _, err := ParseFragment(b); return err }
	for n := range FragmentHeaderLen {
		testErrors(t, parse, []errorCase{{"truncated", g[:n], ErrShort}})
	}
	testErrors(t, parse, []errorCase{
		{"golden", g, nil},
		{"no bytes", g[:FragmentHeaderLen], ErrMalformed},
		{"one byte", g[:FragmentHeaderLen+1], nil},
		{"total 0", change32(g, 0, 0), ErrMalformed},
		{"total one too small", change32(g, 0, 0x424304), ErrMalformed},
		{"total MaxMessage", change32(g, 0, MaxMessage), nil},
		{"total above MaxMessage", change32(g, 0, MaxMessage+1), ErrMalformed},
		{"largest total", change32(g, 0, math.MaxUint32), ErrMalformed},
		{"offset 0", change32(g, 4, 0), nil},
		{"offset one too large", change32(g, 4, 0x424302), ErrMalformed},
		{"offset+length overflows 32 bits", change32(g, 4, math.MaxUint32-1), ErrMalformed},
		{"offset+length overflows 32 bits, largest total", change32(change32(g, 4, math.MaxUint32), 0, math.MaxUint32), ErrMalformed},
		{"offset+length overflows 31 bits", change32(g, 4, math.MaxInt32), ErrMalformed},
		{"offset negative as 32 bits", change32(g, 4, 1<<31), ErrMalformed},
		{"whole message", unhex("03 00 00 00 00 00 00 00 61 62 63"), nil},
	})
}

func TestPutOverDirt(t *testing.T) {
	b := dirty("", DataHeaderLen)[:DataHeaderLen]
	PutDataHeader(b, goldenHeader, MaxPacket)
	if !bytes.Equal(b, goldenEmptyData) {
		t.Errorf("data header is put as\n%swant\n%s", hex.Dump(b), hex.Dump(goldenEmptyData))
	}
	b = dirty("", RunHeaderLen+FragmentHeaderLen)[:RunHeaderLen+FragmentHeaderLen]
	PutRunHeader(b, RunFragment, 12, 0xa8a7a6a5a4a3a2a1, 0x0142434445464748)
	PutFragmentHeader(b[RunHeaderLen:], 0x424305, 0x424301)
	if want := goldenFragment[48:76]; !bytes.Equal(b, want) {
		t.Errorf("fragment run is put as\n%swant\n%s", hex.Dump(b), hex.Dump(want))
	}
}

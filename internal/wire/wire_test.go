package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"
)

// unhex reads hex digits with spaces; # begins a comment.
func unhex(s string) []byte {
	var digits strings.Builder
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		panic(err)
	}
	return b
}

// goldenHeader is the common header of all golden packets; all its bytes differ, so that exchanged bytes are detected.
var goldenHeader = Header{
	GroupTag:  0x04030201,
	Publisher: 0x1817161514131211,
	Epoch:     0x2827262524232221,
}

// goldenHeaderOf is goldenHeader as the parser returns it for a golden packet.
func goldenHeaderOf(t Type, f Flags) Header {
	h := goldenHeader
	h.Type, h.Flags = t, f
	return h
}

// goldenPacket is a packet of docs/vectors.
type goldenPacket struct {
	name   string
	typ    Type
	flags  Flags
	packet []byte
}

// golden has the packets of docs/vectors without a checksum.
var golden = goldenPackets()

func goldenPackets() (list []goldenPacket) {
	for _, v := range vectors.Packets {
		if h := v.Header; Flags(h.Flags)&FlagChecksum == 0 {
			list = append(list, goldenPacket{v.Name, Type(h.Type), Flags(h.Flags), v.packet()})
		}
	}
	return list
}

// parseBody runs the parser of the given type.
func parseBody(typ Type, b []byte) (err error) {
	switch typ {
	case TypeData:
		_, err = ParseData(b)
	case TypeHeartbeat:
		_, err = ParseHeartbeat(b)
	case TypeNAK, TypeNCF, TypeGone:
		_, err = ParseRanges(b)
	case TypeStatus:
		_, err = ParseStatus(b)
	case TypeHello:
		_, err = ParseHello(b)
	case TypeReply:
		_, err = ParseReply(b)
	case TypeRecall:
		_, err = ParseRecall(b)
	}
	return err
}

// parse parses as a receiver does: the header first, then the rest.
func parse(b []byte) error {
	h, err := ParseHeader(b)
	if err != nil {
		return err
	}
	return parseBody(h.Type, b)
}

// change returns a copy of b with v written at offset.
func change(b []byte, offset int, v ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[offset:offset+len(v)], v)
	return b
}

func change16(b []byte, offset int, v uint16) []byte {
	return change(b, offset, binary.LittleEndian.AppendUint16(nil, v)...)
}

func change32(b []byte, offset int, v uint32) []byte {
	return change(b, offset, binary.LittleEndian.AppendUint32(nil, v)...)
}

func change64(b []byte, offset int, v uint64) []byte {
	return change(b, offset, binary.LittleEndian.AppendUint64(nil, v)...)
}

// dirty returns a buffer with a prefix, and with capacity full of ones after it.
func dirty(prefix string, room int) []byte {
	b := bytes.Repeat([]byte{0xff}, len(prefix)+room)
	return append(b[:0], prefix...)
}

// testAppend checks that the appended packet is want, for different buffers.
func testAppend(t *testing.T, want []byte, appendTo func([]byte) []byte) {
	t.Helper()
	for _, c := range []struct {
		name string
		b    []byte
	}{
		{"nil", nil},
		{"exactly enough room, dirty", dirty("", len(want))},
		{"a byte too little room", dirty("", len(want)-1)},
		{"after a prefix, no room", dirty("prefix", 0)[:6:6]},
		{"after a prefix, with room", dirty("prefix", len(want)+9)},
		{"after a long prefix, some room", dirty(strings.Repeat("p", 300), 40)},
	} {
		prefix := bytes.Clone(c.b)
		got := appendTo(c.b)
		if !bytes.HasPrefix(got, prefix) {
			t.Errorf("%s: prefix was changed: %x, want %x", c.name, got, prefix)
			continue
		}
		if !bytes.Equal(got[len(prefix):], want) {
			t.Errorf("%s: bytes\n%swant\n%s", c.name, hex.Dump(got[len(prefix):]), hex.Dump(want))
		}
	}
}

// errorCase is a packet and the error that its type's parser must return; nil for a case just within the bounds.
type errorCase struct {
	name   string
	packet []byte
	want   error
}

func testErrors(t *testing.T, parse func([]byte) error, cases []errorCase) {
	t.Helper()
	for _, c := range cases {
		// No capacity after the packet: a read beyond it panics.
		if err := parse(c.packet[:len(c.packet):len(c.packet)]); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
}

// docs/protocol §2.1, §2.6.
func TestGoldenHeaders(t *testing.T) {
	for _, g := range golden {
		got, err := ParseHeader(g.packet)
		if err != nil {
			t.Errorf("%s: ParseHeader: %v", g.name, err)
		}
		if want := goldenHeaderOf(g.typ, g.flags); got != want {
			t.Errorf("%s: got %+v, want %+v", g.name, got, want)
		}
		b := dirty("", HeaderLen)[:HeaderLen]
		got.Put(b)
		if !bytes.Equal(b, g.packet[:HeaderLen]) {
			t.Errorf("%s: header is put as\n%swant\n%s", g.name, hex.Dump(b), hex.Dump(g.packet[:HeaderLen]))
		}
		if err := parse(g.packet); err != nil {
			t.Errorf("%s: parsing: %v", g.name, err)
		}
	}
}

// docs/protocol §2.8, §13.1, §18.3.
func TestHeaderErrors(t *testing.T) {
	for _, g := range golden {
		known := FlagTagged // flags that determine which fields follow
		if g.typ == TypeReply {
			known = FlagSigned
		}
		codec := ErrUnsupported
		if g.typ == TypeData {
			codec = parse(change(g.packet, 5, byte(CodecS2))) // a data packet may have any: TestDataErrors
		}
		testErrors(t, parse, []errorCase{
			{g.name, g.packet, nil},
			{g.name + ": magic F", change(g.packet, 0, 'f'), ErrForeign},
			{g.name + ": magic f", change(g.packet, 1, 'F'), ErrForeign},
			{g.name + ": version 0", change(g.packet, 2, 0), ErrVersion},
			{g.name + ": version 2", change(g.packet, 2, 2), ErrVersion},
			{g.name + ": version 255", change(g.packet, 2, 255), ErrVersion},
			{g.name + ": type 0", change(g.packet, 3, 0), ErrType},
			{g.name + ": type 3", change(g.packet, 3, byte(unusedType)), ErrType},
			{g.name + ": type 11", change(g.packet, 3, byte(LastType)+1), ErrType},
			{g.name + ": type 255", change(g.packet, 3, 255), ErrType},
			{g.name + ": codec 3", change(g.packet, 5, byte(LastCodec)+1), codec},
			{g.name + ": codec 128", change(g.packet, 5, 128), codec},
			{g.name + ": key epoch 1", change(g.packet, 6, 1), ErrUnsupported},
			{g.name + ": key epoch 128", change(g.packet, 6, 128), ErrUnsupported},
			{g.name + ": codec and key epoch", change(g.packet, 5, 1, 1), ErrUnsupported},
			// Fields that later versions may use are ignored.
			{g.name + ": reserved byte", change(g.packet, 7, 255), nil},
			{g.name + ": all flags but that of a tag or a proof", change(g.packet, 4, g.packet[4]|255&^byte(known)), nil},
			// A foreign packet is distinguished from a short one if possible.
			{g.name + ": short and foreign", []byte("no"), ErrForeign},
			{g.name + ": short and foreign f", []byte("Fx"), ErrForeign},
			{g.name + ": one byte", []byte("x"), ErrShort},
			{g.name + ": nothing", nil, ErrShort},
		})
	}
}

// Every truncation of every control packet is rejected as short, by the header's parser as well as by the type's own.
// For data packets see TestDataTruncated. docs/protocol §13.1.
func TestControlTruncated(t *testing.T) {
	for _, g := range golden {
		if g.typ == TypeData {
			continue
		}
		for n := range len(g.packet) {
			short := bytes.Clone(g.packet[:n])[:n:n]
			if err := parse(short); err != ErrShort {
				t.Errorf("%s truncated to %d of %d bytes: %v, want %v", g.name, n, len(g.packet), err, ErrShort)
			}
			if err := parseBody(g.typ, short); err != ErrShort {
				t.Errorf("%s truncated to %d of %d bytes, header not parsed: %v, want %v", g.name, n, len(g.packet), err, ErrShort)
			}
		}
	}
}

// Parsers ignore bytes after a control packet, and the header's flags. docs/protocol §2.8, §18.3.
func TestControlTrailing(t *testing.T) {
	for _, g := range golden {
		if g.typ == TypeData {
			continue
		}
		for _, tail := range []string{"\x00", "\xff", "a later version's extension"} {
			if err := parse(append(bytes.Clone(g.packet), tail...)); err != nil {
				t.Errorf("%s with %q after it: %v", g.name, tail, err)
			}
		}
	}
}

// No parser panics for a packet of another type.
func TestParseOtherTypes(t *testing.T) {
	for _, g := range golden {
		for typ := TypeData; typ <= LastType; typ++ {
			for n := range len(g.packet) + 1 {
				_ = parseBody(typ, g.packet[:n:n])
			}
		}
	}
}

func TestTypeString(t *testing.T) {
	for typ, want := range map[Type]string{
		0: "type(0)", TypeData: "data", TypeHeartbeat: "heartbeat", unusedType: "type(3)",
		TypeNAK: "nak", TypeNCF: "ncf", TypeGone: "gone", TypeStatus: "status", TypeHello: "hello",
		TypeReply: "reply", TypeRecall: "recall", LastType + 1: "type(11)",
	} {
		if got := typ.String(); got != want || typ.Known() == strings.HasPrefix(want, "type(") {
			t.Errorf("type %d is %q, known %t, want %q", uint8(typ), got, typ.Known(), want)
		}
	}
}

// The numbers of the format cannot change without a new version. docs/protocol §2.18.
func TestConstants(t *testing.T) {
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"HeaderLen", HeaderLen, 32},
		{"DataHeaderLen", DataHeaderLen, 48},
		{"RunHeaderLen", RunHeaderLen, 20},
		{"MessageHeaderLen", MessageHeaderLen, 2},
		{"FragmentHeaderLen", FragmentHeaderLen, 8},
		{"HeartbeatLen", HeartbeatLen, 104},
		{"IndexHeaderLen", IndexHeaderLen, 4},
		{"IndexEntryLen", IndexEntryLen, 12},
		{"RangesHeaderLen", RangesHeaderLen, 56},
		{"StatusHeaderLen", StatusHeaderLen, 96},
		{"HelloLen", HelloLen, 176},
		{"ReplyHeaderLen", ReplyHeaderLen, 72},
		{"RecallHeaderLen", RecallHeaderLen, 40},
		{"RecallEntryLen", RecallEntryLen, 32},
		{"MaxStatusTopics", MaxStatusTopics, 44},
		{"MaxTaggedTopics", MaxTaggedTopics, 39},
		{"MaxName", MaxName, 64},
		{"MaxPacket", MaxPacket, 65535 - 20 - 8},
		{"MaxSeq", MaxSeq, 0x4000_0000_0000_0000},
		{"FlagRepair", uint64(FlagRepair), 0x01},
		{"FlagEnd", uint64(FlagEnd), 0x02},
		{"FlagSolicit", uint64(FlagSolicit), 0x04},
		{"FlagChecksum", uint64(FlagChecksum), 0x08},
		{"FlagLeaving", uint64(FlagLeaving), 0x10},
		{"FlagWantTopics", uint64(FlagWantTopics), 0x20},
		{"FlagMoreTopics", uint64(FlagMoreTopics), 0x40},
	} {
		if c.got != c.want {
			t.Errorf("constant %s = %d, want %d", c.name, c.got, c.want)
		}
	}
	// The packets that must fit MinPacket.
	if n := DataHeaderLen + RunHeaderLen + MaxTopicName; n > MinPacket {
		t.Errorf("a topic run may take %d bytes, more than MinPacket", n)
	}
	if n := StatusHeaderLen + 8*MaxStatusTopics + MaxName; n > MinPacket {
		t.Errorf("a status may take %d bytes, more than MinPacket", n)
	}
}

// The checksum is CRC-32C over bytes 0-3, 5-11 and 16 on, low byte first. That of the vector was computed bit by bit
// (reflected polynomial 0x82F63B78), independently of this code. docs/protocol §2.7.
func TestSetChecksumGolden(t *testing.T) {
	b := bytes.Clone(goldenHeartbeat)
	SetChecksum(b)
	want := vectors.find("heartbeat with a checksum").packet()
	if !bytes.Equal(b, want) {
		t.Errorf("bytes\n%swant\n%s", hex.Dump(b), hex.Dump(want))
	}
	SetChecksum(b)
	if !bytes.Equal(b, want) {
		t.Errorf("bytes written again\n%swant\n%s", hex.Dump(b), hex.Dump(want))
	}
}

// docs/protocol §2.4, §2.7.
func TestChecksumVerify(t *testing.T) {
	for _, g := range golden {
		b := bytes.Clone(g.packet)
		if err := Verify(b, false); err != nil {
			t.Errorf("%s, no checksum, not required: %v", g.name, err)
		}
		if err := Verify(b, true); err != ErrChecksum {
			t.Errorf("%s, no checksum, required: %v, want %v", g.name, err, ErrChecksum)
		}
		SetChecksum(b)
		h, err := ParseHeader(b)
		if want := goldenHeaderOf(g.typ, g.flags|FlagChecksum); h != want || err != nil {
			t.Errorf("%s, with checksum: header is %+v, %v, want %+v", g.name, h, err, want)
		}
		for _, required := range []bool{false, true} {
			if err := Verify(b, required); err != nil {
				t.Errorf("%s: Verify with required %t: %v", g.name, required, err)
			}
		}
		testFlips(t, b)
		if g.typ != TypeData {
			continue
		}
		// Truncations of data packets at run boundaries parse: only the checksum detects them.
		for n := HeaderLen; n < len(b); n++ {
			if err := Verify(b[:n], true); err != ErrChecksum {
				t.Errorf("%s truncated to %d of %d bytes: %v, want %v", g.name, n, len(b), err, ErrChecksum)
			}
		}
	}
}

// testFlips checks that each flipped bit of packet b, which has a checksum, other than of the flags, is detected.
func testFlips(tb testing.TB, b []byte) {
	tb.Helper()
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			soft, hard := Verify(b, false), Verify(b, true)
			b[i] ^= 1 << bit
			switch {
			case i != 4:
				if soft != ErrChecksum || hard != ErrChecksum {
					tb.Errorf("byte %d, bit %d flipped: %v, required %v, want %v", i, bit, soft, hard, ErrChecksum)
				}
			case Flags(1)<<bit == FlagChecksum:
				// A packet without the flag counts as one without a checksum.
				if soft != nil || hard != ErrChecksum {
					tb.Errorf("checksum flag flipped: %v, required %v, want none and %v", soft, hard, ErrChecksum)
				}
			default:
				if soft != nil || hard != nil {
					tb.Errorf("flag bit %d flipped: %v, required %v, want none", bit, soft, hard)
				}
			}
		}
	}
}

// A sender computes a packet's checksum once and sets flags for repairs: SetFlags must neither invalidate nor remove
// nor add a checksum. docs/protocol §2.2, §2.7.
func TestSetFlags(t *testing.T) {
	for _, g := range golden {
		for f := range 256 {
			f := Flags(f)
			b := bytes.Clone(g.packet)
			SetFlags(b, f)
			if want := change(g.packet, 4, byte(f&^FlagChecksum)); !bytes.Equal(b, want) {
				t.Errorf("%s, flags %#x: bytes\n%swant\n%s", g.name, f, hex.Dump(b), hex.Dump(want))
			}
			if err := Verify(b, false); err != nil {
				t.Errorf("%s: Verify with flags %#x: %v", g.name, f, err)
			}
			SetChecksum(b)
			checksummed := bytes.Clone(b)
			SetFlags(b, 0)
			SetFlags(b, f)
			if err := Verify(b, true); err != nil {
				t.Errorf("%s, with checksum, flags %#x: %v", g.name, f, err)
			}
			if !bytes.Equal(b, checksummed) {
				t.Errorf("%s, with checksum, flags %#x: bytes\n%swant\n%s", g.name, f, hex.Dump(b), hex.Dump(checksummed))
			}
		}
	}
}

// Sinks for TestAllocs, so that nothing is optimised away.
var (
	sinkBytes []byte
	sinkErr   error
	sinkNum   uint64
	sinkOK    bool
)

// Parsing and appending packets allocates nothing.
func TestAllocs(t *testing.T) {
	room := make([]byte, 0, MaxPacket)
	checksummed := bytes.Clone(goldenData)
	SetChecksum(checksummed)
	topics := make([]uint64, MaxStatusTopics+1)
	hb := Heartbeat{Lead: 2, Trail: 1, PacketSize: 1472, RTT: time.Millisecond}
	st := Status{Next: 1, Limit: 2}
	var rb RangesBuilder

	for _, c := range []struct {
		name   string
		op     func()
		allocs float64
	}{
		{"header parse", func() {
			var h Header
			h, sinkErr = ParseHeader(goldenData)
			sinkNum = uint64(h.Epoch)
		}, 0},
		{"header parse foreign", func() { _, sinkErr = ParseHeader(room[:HeaderLen]) }, 0},
		{"header put", func() { h := goldenHeader; h.Put(room[:HeaderLen]) }, 0},
		{"checksum set", func() { SetChecksum(checksummed) }, 0},
		{"checksum verify", func() { sinkErr = Verify(checksummed, true) }, 0},
		{"flags set", func() { SetFlags(checksummed, FlagRepair) }, 0},

		{"data parse", func() {
			var d Data
			d, sinkErr = ParseData(goldenData)
			sinkBytes = d.Runs
		}, 0},
		{"data parse malformed", func() { _, sinkErr = ParseData(goldenData[:len(goldenData)-8]) }, 0},
		{"data iterate", func() {
			d, _ := ParseData(goldenData)
			for r, rest, ok := NextRun(d.Runs); ok; r, rest, ok = NextRun(rest) {
				for m, rest, ok := NextMessage(r.Body); ok; m, rest, ok = NextMessage(rest) {
					sinkBytes = m
				}
			}
		}, 0},
		{"data fragment parse", func() {
			var f Fragment
			f, sinkErr = ParseFragment(goldenFragment[DataHeaderLen+RunHeaderLen:])
			sinkBytes = f.Bytes
		}, 0},
		{"data put", func() {
			b := room[:MinPacket]
			PutDataHeader(b, goldenHeader, MinPacket)
			PutRunHeader(b[DataHeaderLen:], RunFragment, FragmentHeaderLen+1, 1, 2)
			PutFragmentHeader(b[DataHeaderLen+RunHeaderLen:], 3, 2)
			SetRunLength(b[DataHeaderLen:], FragmentHeaderLen+1)
			SetRunNumber(b[DataHeaderLen:], 4)
			SetSeq(b, 5)
		}, 0},

		{"heartbeat parse", func() {
			var h Heartbeat
			h, sinkErr = ParseHeartbeat(goldenHeartbeat)
			sinkNum = h.Lead
		}, 0},
		{"heartbeat append", func() { sinkBytes = AppendHeartbeat(room, goldenHeader, &hb) }, 0},

		{"index parse", func() {
			x := ParseIndex(goldenIndexBody)
			sinkOK = x.Answers(goldenAnswer.Receiver, goldenAnswer.Question)
		}, 0},
		{"index put", func() {
			sinkBytes = AppendAnswer(AppendAnswer(room, 1, 2), 3, 4)
			PutIndexRun(room[64:64+RunHeaderLen+IndexHeaderLen+2*IndexEntryLen], IndexBegins, 7, sinkBytes)
		}, 0},

		{"ranges parse", func() {
			var r Ranges
			r, sinkErr = ParseRanges(goldenNAK)
			sinkNum = r.Receiver
		}, 0},
		{"ranges iterate", func() {
			r, _ := ParseRanges(goldenNAK)
			for first, n, ok := r.Next(); ok; first, n, ok = r.Next() {
				sinkNum += first + n
			}
		}, 0},
		{"ranges append", func() {
			rb.Begin(room, goldenHeader, TypeNAK, 1, 2, ReasonNone, 0, MinPacket)
			for i := uint64(2); rb.Add(i, 1); i += 200 {
			}
			sinkBytes = rb.Finish()
		}, 0},
		{"ranges append, builder on the stack", func() {
			var rb RangesBuilder
			rb.Begin(room, goldenHeader, TypeGone, 0, 2, ReasonOverwritten, time.Second, MinPacket)
			sinkOK = rb.Add(2, 1<<40)
			sinkBytes = rb.Finish()
		}, 0},

		{"status parse", func() {
			var s Status
			s, sinkErr = ParseStatus(goldenStatus)
			sinkNum = s.Next
		}, 0},
		{"status iterate", func() {
			s, _ := ParseStatus(goldenStatus)
			for i := range s.Topics() {
				sinkNum = s.Topic(i)
			}
		}, 0},
		{"kept parse", func() {
			var h Header
			_, h, sinkErr = ParseKept(goldenHello)
			sinkNum = uint64(h.Publisher)
		}, 0},
		{"hello parse", func() {
			var x Hello
			x, sinkErr = ParseHello(goldenHello)
			sinkBytes = x.Name
		}, 0},
		{"hello append", func() { sinkBytes = AppendHello(room, goldenHeader, &goldenHelloValue) }, 0},

		{"status append", func() { sinkBytes = AppendStatus(room, goldenHeader, &st, topics) }, 0},
	} {
		if got := testing.AllocsPerRun(100, c.op); got != c.allocs {
			t.Errorf("%s: %v allocations, want %v", c.name, got, c.allocs)
		}
	}
}

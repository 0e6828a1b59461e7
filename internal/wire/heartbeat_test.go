package wire

import (
	"bytes"
	"encoding/hex"
	"math"
	"reflect"
	"testing"
	"time"
)

var goldenHeartbeat = unhex(`
	46 66 01 02 04 00 00 00   # "Ff", version 1, type heartbeat, FlagSolicit, codec 0, key epoch 0
	01 02 03 04 00 00 00 00   # group tag, no checksum
	11 12 13 14 15 16 17 18   # publisher
	21 22 23 24 25 26 27 28   # epoch
	08 07 06 05 04 03 02 01   # 32: lead
	00 07 06 05 04 03 02 01   # 40: trail, 8 less
	31 32 33 34 35 36 37 38   # 48: sent at
	41 42 43 44 51 52 53 54   # 56: back-off window in ns, receivers
	61 62 63 64 71 72 73 74   # 64: status interval in us, heartbeat interval in us
	c0 05 00 00 81 82 83 84   # 72: packet size 1472, zero, round trip in ns
	b1 b2 b3 b4 01 01 00 00   # 80: groups, mapping by hash, CRC-32C, zero
	91 92 93 94 95 96 97 98   # 88: holder
	a1 a2 a3 a4 01 05 00 00   # 96: held in ms, let go, bytes of the name, zero
	6d 64 2d c3 a9            # 104: name
`)

// goldenHeartbeatChecksum is explained at TestSealGolden.
var goldenHeartbeatChecksum = unhex(`7c b8 69 41`)

var goldenHeartbeatValue = Heartbeat{
	Lead:           0x0102030405060708,
	Trail:          0x0102030405060700,
	SentAt:         0x3837363534333231,
	Backoff:        0x44434241 * time.Nanosecond,
	Receivers:      0x54535251,
	StatusInterval: 0x64636261 * time.Microsecond,
	Interval:       0x74737271 * time.Microsecond,
	PacketSize:     1472,
	RTT:            0x84838281 * time.Nanosecond,
	Holder:         0x9897969594939291,
	Held:           0xa4a3a2a1 * time.Millisecond,
	LetGo:          true,
	Name:           []byte("md-é"),
	Settings:       Settings{Groups: 0xb4b3b2b1, Mapping: MappingHash, Checksum: ChecksumCRC32C},
}

// docs/protocol.md §2.13.
func TestHeartbeatGolden(t *testing.T) {
	got, err := ParseHeartbeat(goldenHeartbeat)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, goldenHeartbeatValue) {
		t.Errorf("got %+v, want %+v", got, goldenHeartbeatValue)
	}
	h := goldenHeaderOf(TypeNAK, FlagSolicit) // the type is not the caller's
	testAppend(t, goldenHeartbeat, func(b []byte) []byte { return AppendHeartbeat(b, h, &goldenHeartbeatValue) })
}

// docs/protocol.md §13.3.
func TestHeartbeatErrors(t *testing.T) {
	g := goldenHeartbeat
	testErrors(t, parse, []errorCase{
		{"lead MaxSeq", change64(g, 32, MaxSeq), nil},
		{"lead above MaxSeq", change64(g, 32, MaxSeq+1), ErrMalformed},
		{"largest lead", change64(g, 32, math.MaxUint64), ErrMalformed},
		{"lead 0, trail not", change64(g, 32, 0), ErrMalformed},
		{"nothing sent yet", change64(change64(g, 32, 0), 40, 0), nil},
		{"trail is lead", change64(g, 40, 0x0102030405060708), nil},
		{"trail behind lead", change64(g, 40, 0x0102030405060709), ErrMalformed},
		{"largest trail", change64(g, 40, math.MaxUint64), ErrMalformed},
		{"trail and lead too large", change64(change64(g, 32, math.MaxUint64), 40, math.MaxUint64), ErrMalformed},
		{"packet size 0", change16(g, 72, 0), ErrMalformed},
		{"packet size below MinPacket", change16(g, 72, MinPacket-1), ErrMalformed},
		{"packet size MinPacket", change16(g, 72, MinPacket), nil},
		{"packet size MaxPacket", change16(g, 72, MaxPacket), nil},
		{"packet size above MaxPacket", change16(g, 72, MaxPacket+1), ErrMalformed},
		{"largest packet size", change16(g, 72, math.MaxUint16), ErrMalformed},
		{"reserved bytes", change(change(g, 74, 0xff, 0xff), 102, 0xff, 0xff), nil},
		{"other bits of the holder", change(g, 100, 0xff), nil},
		{"no name", change(g, 101, 0), nil},
		{"longest name", append(change(g, 101, MaxName), make([]byte, MaxName)...), nil},
		{"name that is not all there", change(g, 101, 6), ErrShort},
		{"longer name", append(change(g, 101, MaxName+1), make([]byte, MaxName+1)...), ErrMalformed},
	})
}

// A name that is too long is cut.
// docs/protocol.md §5.6.
func TestHeartbeatLongName(t *testing.T) {
	in := Heartbeat{PacketSize: MinPacket, Name: bytes.Repeat([]byte("n"), MaxName+1)}
	got, err := ParseHeartbeat(AppendHeartbeat(nil, goldenHeader, &in))
	if err != nil || !bytes.Equal(got.Name, in.Name[:MaxName]) {
		t.Errorf("got %q, %v", got.Name, err)
	}
}

// Times that do not fit become the longest that do, negative ones zero.
// docs/protocol.md §1.2.
func TestHeartbeatTimes(t *testing.T) {
	const (
		most         = time.Duration(math.MaxUint32)
		mostInterval = most * time.Microsecond
		mostHeld     = most * time.Millisecond
	)
	for _, c := range []struct {
		in, ns, us, ms time.Duration
	}{
		{0, 0, 0, 0},
		{-1, 0, 0, 0},
		{math.MinInt64, 0, 0, 0},
		{1, 1, 0, 0}, // fractions of the unit are dropped
		{time.Microsecond - 1, time.Microsecond - 1, 0, 0},
		{time.Microsecond, time.Microsecond, time.Microsecond, 0},
		{time.Millisecond, time.Millisecond, time.Millisecond, time.Millisecond},
		{most - 1, most - 1, (most - 1).Truncate(time.Microsecond), (most - 1).Truncate(time.Millisecond)},
		{most, most, most.Truncate(time.Microsecond), most.Truncate(time.Millisecond)},
		{most + 1, most, (most + 1).Truncate(time.Microsecond), most.Truncate(time.Millisecond)},
		{mostInterval, most, mostInterval, mostInterval.Truncate(time.Millisecond)},
		{mostInterval + time.Microsecond, most, mostInterval, mostInterval.Truncate(time.Millisecond)},
		{math.MaxInt64, most, mostInterval, mostHeld},
	} {
		in := Heartbeat{Backoff: c.in, StatusInterval: c.in, Interval: c.in, RTT: c.in, Held: c.in, PacketSize: MinPacket}
		want := Heartbeat{Backoff: c.ns, StatusInterval: c.us, Interval: c.us, RTT: c.ns, Held: c.ms, PacketSize: MinPacket}
		b := AppendHeartbeat(nil, goldenHeader, &in)
		got, err := ParseHeartbeat(b)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v: got %+v, %v, want %+v", c.in, got, err, want)
		}
		again := AppendHeartbeat(nil, goldenHeader, &got)
		if !bytes.Equal(again, b) {
			t.Errorf("%v: appended again\n%swant\n%s", c.in, hex.Dump(again), hex.Dump(b))
		}
	}
}

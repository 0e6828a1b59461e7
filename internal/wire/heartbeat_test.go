package wire

import (
	"bytes"
	"encoding/hex"
	"math"
	"reflect"
	"testing"
	"time"
)

// docs/protocol §2.13.
func TestHeartbeatGolden(t *testing.T) {
	got, err := ParseHeartbeat(goldenHeartbeat)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, goldenHeartbeatValue) {
		t.Errorf("got %+v, want %+v", got, goldenHeartbeatValue)
	}
	h := goldenHeaderOf(TypeNAK, FlagSolicit) // the type of the argument is ignored
	testAppend(t, goldenHeartbeat, func(b []byte) []byte { return AppendHeartbeat(b, h, &goldenHeartbeatValue) })
}

// docs/protocol §13.3, §2.24.
func TestHeartbeatErrors(t *testing.T) {
	g := goldenHeartbeat
	testErrors(t, parse, []errorCase{
		{"lead MaxSeq", change64(g, 32, MaxSeq), nil},
		{"lead above MaxSeq", change64(g, 32, MaxSeq+1), ErrMalformed},
		{"largest lead", change64(g, 32, math.MaxUint64), ErrMalformed},
		{"lead 0, trail not", change64(g, 32, 0), ErrMalformed},
		{"nothing sent yet", change64(change64(g, 32, 0), 40, 0), nil},
		{"trail is lead", change64(g, 40, 0x0102030405060708), nil},
		{"trail after lead", change64(g, 40, 0x0102030405060709), ErrMalformed},
		{"largest trail", change64(g, 40, math.MaxUint64), ErrMalformed},
		{"trail and lead too large", change64(change64(g, 32, math.MaxUint64), 40, math.MaxUint64), ErrMalformed},
		{"packet size 0", change16(g, 72, 0), ErrMalformed},
		{"packet size below MinPacket", change16(g, 72, MinPacket-1), ErrMalformed},
		{"packet size MinPacket", change16(g, 72, MinPacket), nil},
		{"packet size MaxPacket", change16(g, 72, MaxPacket), nil},
		{"packet size above MaxPacket", change16(g, 72, MaxPacket+1), ErrMalformed},
		{"largest packet size", change16(g, 72, math.MaxUint16), ErrMalformed},
		{"reserved bytes", change(g, 75, 0xff), nil},
		{"a topic asked for", append(change(g, 74, 1), make([]byte, askedLen)...), nil},
		{"a truncated topic asked for", append(change(g, 74, 1), make([]byte, askedLen-1)...), ErrShort},
		{"too many topics asked for", append(change(g, 74, 2), make([]byte, 2*askedLen)...), ErrMalformed},
		{"other bits of the holder", change(g, 100, 0xff), nil},
		{"no name", change(g, 101, 0), nil},
		{"longest name", append(change(g, 101, MaxName), make([]byte, MaxName)...), nil},
		{"truncated name", change(g, 101, 6), ErrShort},
		{"legs", append(change(g, 102, MaxLegs), make([]byte, MaxLegs*legTagLen)...), nil},
		{"truncated legs", append(change(g, 102, MaxLegs), make([]byte, MaxLegs*legTagLen-1)...), ErrShort},
		{"too many legs", append(change(g, 102, MaxLegs+1), make([]byte, 100)...), ErrMalformed},
		{"a timing", append(change(g, 103, 1), make([]byte, TimingLen)...), nil},
		{"a truncated timing", append(change(g, 103, 1), make([]byte, TimingLen-1)...), ErrShort},
		{"too many timings", append(change(g, 103, 2), make([]byte, 2*TimingLen)...), ErrMalformed},
		{"longer name", append(change(g, 101, MaxName+1), make([]byte, MaxName+1)...), ErrMalformed},
	})
}

// A name that is too long is truncated. docs/protocol §5.6.
func TestHeartbeatLongName(t *testing.T) {
	in := Heartbeat{PacketSize: MinPacket, Name: bytes.Repeat([]byte("n"), MaxName+1)}
	got, err := ParseHeartbeat(AppendHeartbeat(nil, goldenHeader, &in))
	if err != nil || !bytes.Equal(got.Name, in.Name[:MaxName]) {
		t.Errorf("heartbeat's name %q, error %v, want %q", got.Name, err, in.Name[:MaxName])
	}
}

// Times that do not fit become the longest possible, negative ones zero. docs/protocol §1.2.
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

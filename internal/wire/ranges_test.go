package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// testSeed returns the seed of the random tests: from the environment variable FANFARE_SEED, or a new one. It is shown
// if the test fails.
func testSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv("FANFARE_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 0, 64); err != nil {
			t.Fatalf("FANFARE_SEED: %v", err)
		}
	}
	t.Logf("FANFARE_SEED=%d", seed)
	return seed
}

// rangesDesc is a NAK, NCF or Gone as comparable values.
type rangesDesc struct {
	Receiver, Base uint64
	Reason         Reason
	Wait           time.Duration
	Ranges         []rangeDesc
}

type rangeDesc struct{ First, N uint64 }

func (d *rangesDesc) append(tb testing.TB, b []byte, h Header) []byte {
	tb.Helper()
	var w RangesBuilder
	w.Begin(b, goldenHeaderOf(0, h.Flags), h.Type, d.Receiver, d.Base, d.Reason, d.Wait, math.MaxInt32)
	for i, r := range d.Ranges {
		if w.Count() != i {
			tb.Errorf("count %d, want %d", w.Count(), i)
		}
		if !w.Add(r.First, r.N) {
			tb.Errorf("range %d of %d does not fit", i, len(d.Ranges))
		}
	}
	return w.Finish()
}

func (d *rangesDesc) equal(e *rangesDesc) bool {
	return d.Receiver == e.Receiver && d.Base == e.Base && d.Reason == e.Reason && d.Wait == e.Wait &&
		slices.Equal(d.Ranges, e.Ranges)
}

// describeRanges parses b and iterates over its ranges.
func describeRanges(tb testing.TB, b []byte) (rangesDesc, error) {
	tb.Helper()
	r, err := ParseRanges(b)
	if err != nil {
		return rangesDesc{}, err
	}
	d := rangesDesc{Receiver: r.Receiver, Base: r.at, Reason: r.Reason, Wait: r.Wait}
	count, end := r.Count, r.at
	for first, n, ok := r.Next(); ok; first, n, ok = r.Next() {
		if first < end || n == 0 || n > MaxSeq || first > MaxSeq-n {
			tb.Errorf("range %d: %d from %d, want it not empty, after %d and at most MaxSeq", len(d.Ranges), n, first, end)
		}
		end = first + n
		d.Ranges = append(d.Ranges, rangeDesc{first, n})
	}
	if len(d.Ranges) != count || count == 0 || r.Count != 0 {
		tb.Errorf("%d ranges and %d left, want %d and none", len(d.Ranges), r.Count, count)
	}
	if first, n, ok := r.Next(); ok || first != 0 || n != 0 {
		tb.Errorf("range after the last: %d from %d, want none", n, first)
	}
	return d, nil
}

// docs/protocol §2.15.
func TestRangesGolden(t *testing.T) {
	for _, c := range []struct {
		typ    Type
		packet []byte
		want   rangesDesc
	}{
		{TypeNAK, goldenNAK, goldenNAKValue},
		{TypeNCF, goldenNCF, goldenNCFValue},
		{TypeGone, goldenGone, goldenGoneValue},
	} {
		got, err := describeRanges(t, c.packet)
		if err != nil || !got.equal(&c.want) {
			t.Errorf("%v: got %+v, %v, want %+v", c.typ, got, err, c.want)
		}
		testAppend(t, c.packet, func(b []byte) []byte { return c.want.append(t, b, goldenHeaderOf(c.typ, 0)) })
	}
}

// docs/protocol §13.3.
func TestRangesErrors(t *testing.T) {
	g := goldenNAK
	// with replaces the ranges of g.
	with := func(base uint64, count uint16, ranges string) []byte {
		b := change16(change64(g[:RangesHeaderLen], 40, base), 48, count)
		return append(b, unhex(ranges)...)
	}
	testErrors(t, parse, []errorCase{
		{"base 0", change64(g, 40, 0), nil},
		{"base MaxSeq", change64(g, 40, MaxSeq), ErrMalformed},
		{"largest base", change64(g, 40, math.MaxUint64), ErrMalformed},
		{"no ranges", change16(g, 48, 0), ErrMalformed},
		{"one range less", change16(g, 48, 4), nil},
		{"one range more", change16(g, 48, 6), ErrShort},
		{"largest count", change16(g, 48, math.MaxUint16), ErrShort},
		{"other reason", change(g, 50, 77), nil},
		{"reserved byte", change(g, 51, 255), nil},

		{"zero range", with(0, 1, "00 00"), ErrMalformed},
		{"second range zero", with(0, 2, "00 01 00 00"), ErrMalformed},
		{"zero range in two bytes", with(0, 1, "00 80 00"), ErrMalformed},
		{"numbers longer than necessary", with(5, 1, "83 80 00 82 00"), nil},

		// Last possible base; 2^62-1.
		{"last sequence", with(MaxSeq-1, 1, "00 01"), nil},
		{"last sequence, base 0", with(0, 1, "ff ff ff ff ff ff ff ff 3f 01"), nil},
		{"after the last sequence", with(MaxSeq-1, 1, "01 01"), ErrMalformed},
		{"beyond the last sequence", with(MaxSeq-1, 1, "00 02"), ErrMalformed},
		{"after the last sequence, second range", with(MaxSeq-1, 2, "00 01 00 01"), ErrMalformed},
		{"skip MaxSeq", with(0, 1, "80 80 80 80 80 80 80 80 40 01"), ErrMalformed},
		{"length MaxSeq-1", with(0, 1, "00 ff ff ff ff ff ff ff ff 3f"), nil},
		{"length MaxSeq-1 from 1", with(1, 1, "00 ff ff ff ff ff ff ff ff 3f"), nil},
		{"length MaxSeq-1 from 2", with(2, 1, "00 ff ff ff ff ff ff ff ff 3f"), ErrMalformed},
		{"length above MaxSeq", with(0, 1, "00 81 80 80 80 80 80 80 80 40"), ErrMalformed},
		// Sums that wrap modulo 2^64.
		{"skip 2^64-1", with(5, 1, "ff ff ff ff ff ff ff ff ff 01 01"), ErrMalformed},
		{"length 2^64-1", with(5, 1, "00 ff ff ff ff ff ff ff ff ff 01"), ErrMalformed},
		{"skip and length 2^63", with(5, 1, "80 80 80 80 80 80 80 80 80 01 80 80 80 80 80 80 80 80 80 01"), ErrMalformed},
		{"all largest", with(MaxSeq-1, 1, "ff ff ff ff ff ff ff ff 3f ff ff ff ff ff ff ff ff 3f"), ErrMalformed},

		{"skip above 2^64", with(0, 1, "ff ff ff ff ff ff ff ff ff 02 01"), ErrMalformed},
		{"skip of eleven bytes", with(0, 1, "80 80 80 80 80 80 80 80 80 80 00 01"), ErrMalformed},
		{"length above 2^64", with(0, 1, "00 ff ff ff ff ff ff ff ff ff 02"), ErrMalformed},
		{"length of eleven bytes", with(0, 1, "00 80 80 80 80 80 80 80 80 80 80 01"), ErrMalformed},
		{"truncated skip", with(0, 1, "80 80 80"), ErrShort},
		{"truncated length", with(0, 1, "00 80 80 80"), ErrShort},
		{"length missing", with(0, 1, "00"), ErrShort},
		{"malformed range after the last", with(0, 1, "00 01 00 00"), nil},
	})
}

func TestRangesWait(t *testing.T) {
	const most = math.MaxUint32 * time.Microsecond
	for in, want := range map[time.Duration]time.Duration{
		math.MinInt64:           0,
		-time.Microsecond:       0,
		0:                       0,
		time.Microsecond - 1:    0,
		time.Microsecond:        time.Microsecond,
		most:                    most,
		most + time.Microsecond: most,
		math.MaxInt64:           most,
	} {
		d := rangesDesc{Wait: in, Ranges: []rangeDesc{{0, 1}}}
		got, err := describeRanges(t, d.append(t, nil, goldenHeaderOf(TypeNCF, 0)))
		if err != nil || got.Wait != want {
			t.Errorf("%v: got %v, %v, want %v", in, got.Wait, err, want)
		}
	}
}

func TestRangesBuilderPanics(t *testing.T) {
	for _, c := range []struct {
		name     string
		first, n uint64
		want     bool
	}{
		{"next to the last", 20, 1, false},
		{"empty", 30, 0, true},
		{"within the last", 19, 1, true},
		{"the last", 10, 10, true},
		{"before the last", 5, 1, true},
		{"before base", 4, 1, true},
	} {
		var w RangesBuilder
		w.Begin(nil, goldenHeader, TypeNAK, 1, 5, ReasonNone, 0, MinPacket)
		w.Add(10, 10)
		got := func() (panicked bool) {
			defer func() { panicked = recover() != nil }()
			w.Add(c.first, c.n)
			return false
		}()
		if got != c.want {
			t.Errorf("%s: panics %t, want %t", c.name, got, c.want)
		}
	}
}

// No range fits a packet without room, and the header stays intact.
func TestRangesBuilderNoRoom(t *testing.T) {
	for _, limit := range []int{0, 1, RangesHeaderLen, RangesHeaderLen + 1, RangesHeaderLen + 2} {
		var w RangesBuilder
		w.Begin(nil, goldenHeader, TypeNAK, 1, 0, ReasonNone, 0, limit)
		if got, want := w.Add(0, 1), limit == RangesHeaderLen+2; got != want {
			t.Errorf("limit %d: Add is %t, want %t", limit, got, want)
		}
		if w.Add(128, 1) {
			t.Errorf("limit %d: a range is accepted that does not fit", limit)
		}
		b := w.Finish()
		if len(b) != RangesHeaderLen+2*w.Count() {
			t.Errorf("limit %d: %d bytes", limit, len(b))
		}
		if _, err := ParseRanges(b); (err == nil) != (w.Count() == 1) {
			t.Errorf("limit %d: %d ranges, %v", limit, w.Count(), err)
		}
	}
}

// The count has 16 bits, whatever the limit.
func TestRangesBuilderCount(t *testing.T) {
	var w RangesBuilder
	w.Begin(nil, goldenHeader, TypeNAK, 1, 0, ReasonNone, 0, 1<<20)
	for i := range uint64(math.MaxUint16) {
		if !w.Add(2*i, 1) {
			t.Fatalf("range %d does not fit", i)
		}
	}
	if w.Add(1<<20, 1) || w.Count() != math.MaxUint16 {
		t.Errorf("%d ranges fit, want %d", w.Count(), math.MaxUint16)
	}
	d, err := describeRanges(t, w.Finish())
	if err != nil || len(d.Ranges) != math.MaxUint16 {
		t.Errorf("%d ranges, error %v, want %d", len(d.Ranges), err, math.MaxUint16)
	}
}

// oracleRanges builds the packets for ranges in the simplest way: it encodes all, and begins another packet when one is
// too long.
func oracleRanges(header []byte, ranges []rangeDesc, base uint64, limit int) (packets [][]byte) {
	var packet []byte
	var end, count uint64
	for _, r := range ranges {
		for {
			if packet == nil {
				packet = change64(header, 40, base)
				end, count = base, 0
			}
			more := varint(varint(bytes.Clone(packet), r.First-end), r.N)
			if len(more) <= limit {
				packet, end, count = more, r.First+r.N, count+1
				break
			}
			packets = append(packets, change16(packet, 48, uint16(count)))
			packet, base = nil, r.First
		}
	}
	return append(packets, change16(packet, 48, uint16(count)))
}

func varint(b []byte, v uint64) []byte {
	if v < 128 {
		return append(b, byte(v))
	}
	return varint(append(b, byte(v%128)+128), v/128)
}

// Random gaps, in as many packets as necessary, are parsed unchanged.
func TestRangesRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testSeed(t), 2))
	for range 2000 {
		// Gaps of a window, as a subscriber has them, or random ones.
		var ranges []rangeDesc
		var missing []bool
		var base, window uint64
		if rnd.IntN(2) == 0 {
			missing = make([]bool, 1+rnd.IntN(3000))
			window = uint64(len(missing))
			base = rnd.Uint64N(MaxSeq) >> rnd.IntN(62)
			base = min(base, MaxSeq-window)
			loss, burst := rnd.Float64(), rnd.Float64()
			for i := range missing {
				p := loss
				if i > 0 && missing[i-1] {
					p = burst
				}
				if missing[i] = rnd.Float64() < p; !missing[i] {
					continue
				}
				if i > 0 && missing[i-1] {
					ranges[len(ranges)-1].N++
				} else {
					ranges = append(ranges, rangeDesc{base + uint64(i), 1})
				}
			}
		} else {
			base = rnd.Uint64() >> (2 + rnd.IntN(62))
			for end := base; len(ranges) < 500; {
				first := end + rnd.Uint64()>>(3+rnd.IntN(62))
				n := 1 + rnd.Uint64()>>(3+rnd.IntN(62))
				if first+n > MaxSeq {
					break
				}
				ranges = append(ranges, rangeDesc{first, n})
				end = first + n
			}
		}
		if len(ranges) == 0 {
			continue
		}

		// The header is the golden one; 18 bytes are two of the longest numbers.
		limit := RangesHeaderLen + 18 + rnd.IntN(200)
		if rnd.IntN(4) == 0 {
			limit = 1472
		}
		prefix := make([]byte, rnd.IntN(3)*50)
		var packets [][]byte
		from := base
		for i := 0; i < len(ranges); {
			var w RangesBuilder
			w.Begin(bytes.Clone(prefix), goldenHeader, TypeNAK, goldenNAKValue.Receiver, from, ReasonNone, 0, limit)
			for i < len(ranges) && w.Add(ranges[i].First, ranges[i].N) {
				i++
			}
			if w.Count() == 0 {
				t.Fatalf("range %+v does not fit %d bytes", ranges[i], limit)
			}
			if i < len(ranges) {
				from = ranges[i].First
				if w.Add(ranges[i].First, ranges[i].N) {
					t.Fatal("a range fits at the second attempt")
				}
			}
			b := w.Finish()
			if !bytes.HasPrefix(b, prefix) {
				t.Fatal("prefix was changed")
			}
			if b = b[len(prefix):]; len(b) > limit {
				t.Fatalf("packet of %d bytes, limit %d", len(b), limit)
			}
			packets = append(packets, b)
		}

		want := oracleRanges(goldenNAK[:RangesHeaderLen], ranges, base, limit)
		if len(packets) != len(want) {
			t.Fatalf("%d packets, want %d", len(packets), len(want))
		}
		var got []rangeDesc
		for i, b := range packets {
			if !bytes.Equal(b, want[i]) {
				t.Fatalf("packet %d is\n%swant\n%s", i, hex.Dump(b), hex.Dump(want[i]))
			}
			d, err := describeRanges(t, b)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, d.Ranges...)
		}
		if !slices.Equal(got, ranges) {
			t.Fatalf("got %v, want %v", got, ranges)
		}
		if missing == nil {
			continue
		}
		for _, r := range got {
			for seq := r.First; seq < r.First+r.N; seq++ {
				if !missing[seq-base] {
					t.Fatalf("packet %d is listed twice or not missing", seq)
				}
				missing[seq-base] = false
			}
		}
		if i := slices.Index(missing, true); i >= 0 {
			t.Fatalf("packet %d is missing and not listed", base+uint64(i))
		}
	}
}

func TestUvarintLen(t *testing.T) {
	for bit := range 64 {
		for _, v := range []uint64{1 << bit, 1<<bit - 1, math.MaxUint64 >> bit} {
			if got, want := uvarintLen(v), len(binary.AppendUvarint(nil, v)); got != want {
				t.Errorf("%d takes %d bytes, not %d", v, want, got)
			}
		}
	}
}

package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
)

// announceDesc is an announce as comparable values.
type announceDesc struct {
	AsOf         uint64
	First, Total uint32
	Topics       []topicDesc
}

type topicDesc struct {
	ID, Next uint64
	Name     string
}

func (d *announceDesc) append(b []byte, h Header) []byte {
	start := len(b)
	b = AppendAnnounceHeader(b, h, d.AsOf, d.First, d.Total)
	for _, s := range d.Topics {
		b = AppendTopicState(b, s.ID, s.Next, s.Name)
	}
	FinishAnnounce(b[start:], len(d.Topics))
	return b
}

func (d *announceDesc) equal(e *announceDesc) bool {
	return d.AsOf == e.AsOf && d.First == e.First && d.Total == e.Total && slices.Equal(d.Topics, e.Topics)
}

// describeAnnounce parses b and iterates over its topics.
func describeAnnounce(tb testing.TB, b []byte) (announceDesc, error) {
	tb.Helper()
	a, err := ParseAnnounce(b)
	if err != nil {
		return announceDesc{}, err
	}
	d := announceDesc{AsOf: a.AsOf, First: a.First, Total: a.Total}
	count := a.Count
	for s, ok := a.Next(); ok; s, ok = a.Next() {
		if cap(s.Name) != len(s.Name) {
			tb.Errorf("name %q: an append to it would write into the packet", s.Name)
		}
		d.Topics = append(d.Topics, topicDesc{s.ID, s.Next, string(s.Name)})
	}
	if len(d.Topics) != count || a.Count != 0 {
		tb.Errorf("%d topics and %d left, want %d and none", len(d.Topics), a.Count, count)
	}
	if s, ok := a.Next(); ok {
		tb.Errorf("topic %+v after the last", s)
	}
	return d, nil
}

// docs/protocol §2.14.
func TestAnnounceGolden(t *testing.T) {
	got, err := describeAnnounce(t, goldenAnnounce)
	if err != nil {
		t.Fatal(err)
	}
	if !got.equal(&goldenAnnounceValue) {
		t.Errorf("got %+v, want %+v", got, goldenAnnounceValue)
	}
	h := goldenHeaderOf(TypeNAK, 0) // append ignores the type in h
	testAppend(t, goldenAnnounce, func(b []byte) []byte { return goldenAnnounceValue.append(b, h) })
}

// docs/protocol §13.3.
func TestAnnounceErrors(t *testing.T) {
	g := goldenAnnounce
	testErrors(t, parse, []errorCase{
		{"as of 0", change64(g, 32, 0), nil},
		{"as of MaxSeq", change64(g, 32, MaxSeq), nil},
		{"as of above MaxSeq", change64(g, 32, MaxSeq+1), ErrMalformed},
		{"largest as of", change64(g, 32, math.MaxUint64), ErrMalformed},

		{"first one too large", change32(g, 40, 262), ErrMalformed},
		{"first 0", change32(g, 40, 0), nil},
		{"total one too small", change32(g, 44, 263), ErrMalformed},
		{"total 0", change32(g, 44, 0), ErrMalformed},
		{"first+count overflows 32 bits", change32(g, 40, math.MaxUint32), ErrMalformed},
		{"first+count overflows 32 bits, largest total", change32(change32(g, 40, math.MaxUint32-2), 44, math.MaxUint32), ErrMalformed},
		{"largest first and total", change32(change32(g, 40, math.MaxUint32-3), 44, math.MaxUint32), nil},

		{"count above total-first", change16(g, 48, 4), ErrMalformed},
		{"count above the topics in the packet", change16(change32(g, 44, 265), 48, 4), ErrShort},
		{"largest count", change16(change32(g, 44, math.MaxUint32), 48, math.MaxUint16), ErrShort},
		{"count below the topics in the packet", change16(g, 48, 2), nil},
		{"count 0", change16(g, 48, 0), nil},
		{"reserved bytes", change(g, 50, 1, 2, 3, 4, 5, 6), nil},

		{"number MaxSeq", change64(g, 64, MaxSeq), ErrMalformed},
		{"largest number", change64(g, 64, math.MaxUint64), ErrMalformed},
		{"last number MaxSeq", change64(g, 98+8, MaxSeq), ErrMalformed},
		{"name of length 0", change16(g, 72, 0), ErrMalformed},
		{"last name of length 0", change16(g, 98+16, 0), ErrMalformed},
		{"last name one byte too long", change16(g, 98+16, 5), ErrShort},
		{"last name of length 255", change16(g, 98+16, 255), ErrShort},
		{"last name of length 256", change16(g, 98+16, 256), ErrMalformed},
		{"last name of length 65535", change16(g, 98+16, math.MaxUint16), ErrMalformed},
	})
}

func TestAnnounceNames(t *testing.T) {
	for n := range 300 {
		name := strings.Repeat("n", n)
		want := announceDesc{Total: 2, Topics: []topicDesc{{1, 2, name}, {3, 4, "next"}}}
		b := want.append(nil, goldenHeader)
		if size := AnnounceHeaderLen + AnnounceEntryLen(name) + AnnounceEntryLen("next"); len(b) != size {
			t.Errorf("name of %d bytes: packet has %d, want %d", n, len(b), size)
		}
		got, err := describeAnnounce(t, b)
		if 1 <= n && n <= MaxTopicName {
			if err != nil || !got.equal(&want) {
				t.Errorf("name of %d bytes: got %+v, %v, want %+v", n, got, err, want)
			}
		} else if err != ErrMalformed {
			t.Errorf("name of %d bytes: %v, want %v", n, err, ErrMalformed)
		}
	}
}

// An announce may fill the largest packet.
func TestAnnounceMany(t *testing.T) {
	want := announceDesc{AsOf: 1, First: 7}
	size := AnnounceHeaderLen
	for id := uint64(0); size+AnnounceEntryLen("x") <= MaxPacket; id++ {
		want.Topics = append(want.Topics, topicDesc{id, id, "x"})
		size += AnnounceEntryLen("x")
	}
	want.Total = 7 + uint32(len(want.Topics))
	b := want.append(nil, goldenHeader)
	if len(b) != size {
		t.Errorf("packet has %d bytes, want %d", len(b), size)
	}
	if got := int(binary.LittleEndian.Uint16(b[48:])); got != len(want.Topics) {
		t.Errorf("count is %d, want %d", got, len(want.Topics))
	}
	got, err := describeAnnounce(t, b)
	if err != nil || !got.equal(&want) {
		t.Errorf("got %d topics, %v, want %d", len(got.Topics), err, len(want.Topics))
	}
}

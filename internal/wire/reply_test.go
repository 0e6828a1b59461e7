package wire

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"testing"
)

var (
	goldenReply, goldenReplyValue   = vectorOf("reply", (*replyFields).value)
	goldenRecall, goldenRecallValue = vectorOf("recall", func(f *recallFields) recallFields { return *f })
)

func TestReply(t *testing.T) {
	got, err := ParseReply(goldenReply)
	if err != nil || !reflect.DeepEqual(got, goldenReplyValue) {
		t.Errorf("reply %+v, error %v, want %+v", got, err, goldenReplyValue)
	}
	testAppend(t, goldenReply, func(b []byte) []byte { return AppendReply(b, goldenHeaderOf(TypeNAK, 0), &goldenReplyValue) })
	if n := MaxReplyBytes(1472); n != 1400 {
		t.Errorf("%d bytes of a reply fit a packet, want 1400", n)
	}
}

// docs/protocol §13.3.
func TestReplyErrors(t *testing.T) {
	g := goldenReply
	testErrors(t, parse, []errorCase{
		{"number MaxSeq-1", change64(g, 48, MaxSeq-1), nil},
		{"number MaxSeq", change64(g, 48, MaxSeq), ErrMalformed},
		{"total as long as offset and length", change32(g, 56, 5), nil},
		{"total of one byte less", change32(g, 56, 4), ErrMalformed},
		{"longest total", change32(g, 56, MaxMessage), nil},
		{"a longer total", change32(g, 56, MaxMessage+1), ErrMalformed},
		{"largest total", change32(g, 56, math.MaxUint32), ErrMalformed},
		{"largest offset", change32(g, 60, math.MaxUint32), ErrMalformed},
		{"signed, with the minimum total", change(change16(change32(change32(g, 56, ReplyProofLen), 60, 0), 64, 3), 4, byte(FlagSigned)), nil},
		{"signed, and shorter than its proof", change(change16(change32(change32(g, 56, ReplyProofLen-1), 60, 0), 64, 3), 4, byte(FlagSigned)), ErrMalformed},
		{"length 0 of some bytes", change16(g, 64, 0), ErrMalformed},
		{"one byte more", change16(change32(g, 56, 9), 64, 4), ErrShort},
		{"largest length", change16(change32(g, 56, MaxMessage), 64, math.MaxUint16), ErrShort},
		{"reserved bytes", change(g, 66, 1, 2, 3, 4, 5, 6), nil},
	})
}

func TestRecall(t *testing.T) {
	testAppend(t, goldenRecall, func(b []byte) []byte { return goldenRecallValue.append(b, goldenHeaderOf(TypeNAK, 0)) })
}

// docs/protocol §13.3.
func TestRecallErrors(t *testing.T) {
	g := goldenRecall
	testErrors(t, parse, []errorCase{
		{"no reply", change16(g, 32, 0), ErrMalformed},
		{"one reply", change16(g, 32, 1), nil},
		{"one reply more", change16(g, 32, 3), ErrShort},
		{"largest count", change16(g, 32, math.MaxUint16), ErrShort},
		{"number MaxSeq", change64(g, 40+16, MaxSeq), ErrMalformed},
		{"number MaxSeq of the second", change64(g, 72+16, MaxSeq), ErrMalformed},
		{"an offset too large", change32(g, 72+24, MaxMessage+1), ErrMalformed},
		{"reserved bytes", change(g, 34, 1, 2, 3, 4, 5, 6), nil},
	})
}

func FuzzParseReply(f *testing.F) {
	addGolden(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		b = exact(b)
		want, err := ParseReply(b)
		if err != nil {
			return
		}
		if want.Number >= MaxSeq || want.Total > MaxMessage || want.Offset+len(want.Bytes) > want.Total || !within(want.Bytes, b) {
			t.Errorf("ParseReply accepted %+v, want an error", want)
		}
		again := AppendReply(nil, goldenHeaderOf(0, FlagSolicit), &want)
		checkAgain(t, again, TypeReply)
		if got, err := ParseReply(again); err != nil || !bytes.Equal(got.Bytes, want.Bytes) || got.Offset != want.Offset || got.Total != want.Total {
			t.Errorf("reply %+v, error %v, want %+v", got, err, want)
		}
	})
}

func FuzzParseRecall(f *testing.F) {
	addGolden(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		b = exact(b)
		r, err := ParseRecall(b)
		if err != nil {
			return
		}
		var all []Recalled
		again := AppendRecallHeader(nil, goldenHeaderOf(0, FlagSolicit))
		for i := range r.Count {
			x := r.At(i)
			all = append(all, x)
			again = AppendRecalled(again, &x)
		}
		FinishRecall(again, r.Count)
		checkAgain(t, again, TypeRecall)
		got, err := ParseRecall(again)
		if err != nil || got.Count != r.Count {
			t.Fatal(err)
		}
		for i, x := range slices.All(all) {
			if got.At(i) != x {
				t.Errorf("entry %d is %+v, want %+v", i, got.At(i), x)
			}
		}
	})
}

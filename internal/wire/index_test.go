package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// goldenIndex is a packet with an index run; goldenIndexBody is its body.
var goldenIndex = unhex(`
	46 66 01 01 00 00 00 00   # "Ff", version 1, type data
	01 02 03 04 00 00 00 00   # group tag, no checksum
	11 12 13 14 15 16 17 18   # publisher
	21 22 23 24 25 26 27 28   # epoch
	38 37 36 35 34 33 32 31   # 32: sequence
	c0 05 00 00 00 00 00 00   # 40: packet size 1472, zeros
	05 00 1c 00 00 00 00 00   # 48: index, zero, 28 bytes, topic 0 (low)
	00 00 00 00 48 47 46 45   # topic (high), number (low)
	44 43 42 01               # number (high)
	05 00 00 00               # 68: begins and all, zeros
	a1 a2 a3 a4 a5 a6 a7 a8   # 72: receiver
	b1 b2 b3 b4               # question
	ff ff ff ff ff ff ff ff   # 84: receiver
	00 00 00 00               # question 0
`)

var goldenIndexBody = goldenIndex[DataHeaderLen+RunHeaderLen:]

var goldenAnswer = answerDesc{0xa8a7a6a5a4a3a2a1, 0xb4b3b2b1}

var goldenIndexValue = dataDesc{Seq: 0x3132333435363738, PacketSize: 1472, Runs: []runDesc{
	{Kind: RunIndex, Number: 0x0142434445464748, Index: &indexDesc{IndexBegins | IndexAll, []answerDesc{goldenAnswer, {1<<64 - 1, 0}}}},
}}

// indexDesc is the body of an index run as comparable values.
type indexDesc struct {
	Marks   IndexMarks
	Answers []answerDesc
}

type answerDesc struct {
	Receiver uint64
	Question uint32
}

// append appends the body to b, and writes the header of the run at offset at of b.
func (d *indexDesc) append(b []byte, at int, number uint64) []byte {
	var answers []byte
	for _, a := range d.Answers {
		answers = AppendAnswer(answers, a.Receiver, a.Question)
	}
	b = slices.Grow(b, IndexHeaderLen+len(answers))[:len(b)+IndexHeaderLen+len(answers)]
	PutIndexRun(b[at:], d.Marks, number, answers)
	return b
}

// describeIndex parses the body of an index run.
func describeIndex(tb testing.TB, body []byte) *indexDesc {
	tb.Helper()
	x := ParseIndex(body)
	d := &indexDesc{Marks: x.Marks}
	for b := body[IndexHeaderLen:]; len(b) > 0; b = b[IndexEntryLen:] {
		a := answerDesc{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:])}
		if d.Answers = append(d.Answers, a); !x.Answers(a.Receiver, a.Question) {
			tb.Errorf("the run does not answer %+v, which it contains", a)
		}
	}
	return d
}

// randomIndex returns the body of an index run with at most room bytes of answers.
func randomIndex(rnd *rand.Rand, room int) *indexDesc {
	d := &indexDesc{Marks: IndexMarks(rnd.Uint32())}
	for range rnd.IntN(room/IndexEntryLen + 1) {
		d.Answers = append(d.Answers, answerDesc{rnd.Uint64(), rnd.Uint32()})
	}
	return d
}

// indexed returns a data packet with an index run.
func indexed(topic uint64, marks IndexMarks, number uint64, answers ...answerDesc) []byte {
	d := dataDesc{PacketSize: MinPacket, Runs: []runDesc{{Kind: RunIndex, Topic: topic, Number: number, Index: &indexDesc{marks, answers}}}}
	return d.append(nil, goldenHeader, 0)
}

// docs/protocol §2.14.
func TestIndexGolden(t *testing.T) {
	got, err := describeData(t, goldenIndex)
	if err != nil || !reflect.DeepEqual(got, goldenIndexValue) {
		t.Errorf("got %+v, %v, want %+v", got, err, goldenIndexValue)
	}
	testAppend(t, goldenIndex, func(b []byte) []byte { return goldenIndexValue.append(b, goldenHeader, 0) })
	b := dirty("", len(goldenIndexBody)+RunHeaderLen)[:RunHeaderLen+len(goldenIndexBody)]
	PutIndexRun(b, IndexBegins|IndexAll, 0x0142434445464748, goldenIndexBody[IndexHeaderLen:])
	if want := goldenIndex[DataHeaderLen:]; !bytes.Equal(b, want) {
		t.Errorf("index run is put as\n%swant\n%s", hex.Dump(b), hex.Dump(want))
	}
}

// docs/protocol §13.3.
func TestIndexErrors(t *testing.T) {
	g := goldenIndex
	testErrors(t, parse, []errorCase{
		{"golden", g, nil},
		{"all marks", change(g, 68, 255), nil},
		{"no marks", change(g, 68, 0), nil},
		{"reserved bytes", change(g, 69, 1, 2, 3), nil},
		{"a topic id", change64(g, 52, 1), nil},
		{"since MaxSeq-1", change64(g, 60, MaxSeq-1), nil},
		{"since MaxSeq", change64(g, 60, MaxSeq), ErrMalformed},
		{"no body", change16(g[:68], 50, 0), ErrMalformed},
		{"part of the marks", change16(g[:71], 50, 3), ErrMalformed},
		{"no answers", change16(g[:72], 50, 4), nil},
		{"part of an answer", change16(g[:83], 50, 15), ErrMalformed},
		{"one answer", change16(g[:84], 50, 16), nil},
		{"a byte after an answer", change16(g[:85], 50, 17), ErrMalformed},
		{"part of the second answer", change16(g[:95], 50, 27), ErrMalformed},
		{"longer than the packet", change16(g, 50, 40), ErrMalformed},
	})
}

// A round answers the questions in its first run, and no others: neither another question of the receiver, nor that of
// another receiver. docs/protocol §9.3.
func TestIndexAnswers(t *testing.T) {
	x := ParseIndex(goldenIndexBody)
	for _, c := range []struct {
		answerDesc
		want bool
	}{
		{goldenAnswer, true}, {answerDesc{1<<64 - 1, 0}, true},
		{answerDesc{goldenAnswer.Receiver, goldenAnswer.Question + 1}, false}, {answerDesc{goldenAnswer.Receiver, 0}, false},
		{answerDesc{1<<64 - 1, goldenAnswer.Question}, false}, {answerDesc{goldenAnswer.Receiver + 1, goldenAnswer.Question}, false},
	} {
		if got := x.Answers(c.Receiver, c.Question); got != c.want {
			t.Errorf("answers %+v: %t, want %t", c.answerDesc, got, c.want)
		}
	}
	if x := ParseIndex(goldenIndexBody[:IndexHeaderLen]); x.Answers(0, 0) {
		t.Error("a run without answers answers a question")
	}
}

// As many answers as fit fill the largest packet.
func TestIndexFull(t *testing.T) {
	for _, size := range []int{MinPacket, 1472, MaxPacket} {
		n := (size - DataHeaderLen - RunHeaderLen - IndexHeaderLen) / IndexEntryLen
		want := dataDesc{PacketSize: size, Runs: []runDesc{{Kind: RunIndex, Number: 3, Index: &indexDesc{Marks: IndexBegins}}}}
		for i := range n {
			want.Runs[0].Index.Answers = append(want.Runs[0].Index.Answers, answerDesc{uint64(i) + 1, uint32(i)})
		}
		b := want.append(nil, goldenHeader, 0)
		if left := size - len(b); left < 0 || left >= IndexEntryLen {
			t.Errorf("packet size %d: packet of %d bytes with %d answers, want it full", size, len(b), n)
		}
		if got, err := describeData(t, b); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("packet size %d: error %v, or another packet", size, err)
		}
	}
}

package itch

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
	"time"
)

// golden vectors: those marked real are from the sample in testdata, with message number and
// offset; the others are written by hand from the tables of the specification.
var golden = []struct {
	name string
	hex  string
	want Message
}{
	{"S real 2 at 54", "53000000001f1acedb172e51", Message{Timestamp: 34200000075566, Event: EventStartOfMarketHours}},
	{"R", "52000d00000a5ae3e2f3904141504c202020205120000000644e435a20504e4e314e000000004e",
		Message{Locate: 13, Timestamp: 11385486635920, Stock: MakeSymbol("AAPL"), Listing: [20]byte([]byte("Q \x00\x00\x00\x64NCZ PNN1N\x00\x00\x00\x00N"))}},
	{"A real 5 at 126", "4120bd00001f1acedb597b0000000000970c7c42000000645649584d2020202000034134",
		Message{Locate: 8381, Timestamp: 34200000092539, Ref: 9899132, Side: Buy, Shares: 100, Stock: MakeSymbol("VIXM"), Price: 213300}},
	{"F real 7 at 185", "46180400001f1acedb69630000000000729047420000006450474620202020200002cad8464c5447",
		Message{Locate: 6148, Timestamp: 34200000096611, Ref: 7508039, Side: Buy, Shares: 100, Stock: MakeSymbol("PGF"), Price: 183000, MPID: [4]byte{'F', 'L', 'T', 'G'}}},
	{"E real 1 at 21", "4506bb00021f1aced9fac8000000000077de3500000050000000000000d0e6",
		Message{Locate: 1723, Tracking: 2, Timestamp: 34200000002760, Ref: 7855669, Shares: 80, Match: 53478}},
	{"C real 307 at 10668", "430e5800011f1acee91efc000000000056961a00000036000000000000d0f84e00062b4c",
		Message{Locate: 3672, Tracking: 1, Timestamp: 34200000995068, Ref: 5674522, Shares: 54, Match: 53496, Printable: 'N', Price: 404300}},
	{"X real 484 at 17128", "58025a00001f1aceecdb0c000000000077aefd000000c8",
		Message{Locate: 602, Timestamp: 34200001239820, Ref: 7843581, Shares: 200}},
	{"D real 0 at 0", "440be100001f1aced9f0e600000000004a07ee",
		Message{Locate: 3041, Timestamp: 34200000000230, Ref: 4851694}},
	{"U real 4 at 89", "55115400001f1acedb555400000000005546720000000000569e5a000003e8001c758c",
		Message{Locate: 4436, Timestamp: 34200000091476, Ref: 5588594, NewRef: 5676634, Shares: 1000, Price: 1865100}},
	{"P real 262 at 9121", "501a9f00021f1acee4939300000000000000004200000054524f4b5520202020001502e8000000000000d0ef",
		Message{Locate: 6815, Tracking: 2, Timestamp: 34200000697235, Side: Buy, Shares: 84, Stock: MakeSymbol("ROKU"), Price: 1377000, Match: 53487}},
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGolden(t *testing.T) {
	for _, g := range golden {
		raw := unhex(t, g.hex)
		want := g.want
		want.Type = Type(g.name[0])
		var got Message
		if err := got.Parse(raw); err != nil || got != want {
			t.Errorf("%s: %v\n got %+v\nwant %+v", g.name, err, got, want)
		}
		if b := got.Append([]byte("before")); !bytes.Equal(b, append([]byte("before"), raw...)) {
			t.Errorf("%s: Append gives\n%x, want\n%x", g.name, b[len("before"):], raw)
		}
	}
}

// Every prefix and every extension of a message is refused.
func TestParseRefuses(t *testing.T) {
	var m Message
	for _, g := range golden {
		raw := unhex(t, g.hex)
		for n := range len(raw) {
			if err := m.Parse(raw[:n]); !errors.Is(err, ErrLength) {
				t.Errorf("%s: first %d bytes: %v, want ErrLength", g.name, n, err)
			}
		}
		if err := m.Parse(append(raw, 0)); !errors.Is(err, ErrLength) {
			t.Errorf("%s: one byte too long: %v, want ErrLength", g.name, err)
		}
	}
	bad := unhex(t, golden[3].hex)
	bad[sideAt] = 'x'
	if err := m.Parse(bad); !errors.Is(err, ErrSide) {
		t.Errorf("side x: %v, want ErrSide", err)
	}
}

// Of an unknown type the header is parsed, and of a type without fields here also the stock.
func TestOtherTypes(t *testing.T) {
	msg := append([]byte("O\x00\x07\x00\x01\x00\x00\x00\x00\x00\x2a"), "whatever"...)
	var m Message
	if err := m.Parse(msg); err != nil || m != (Message{Type: 'O', Locate: 7, Tracking: 1, Timestamp: 42}) {
		t.Errorf("Parse: %+v and error %v, want type O, locate 7, tracking 1, timestamp 42", m, err)
	}
	if err := m.Parse(msg[:headerLen-1]); !errors.Is(err, ErrLength) {
		t.Errorf("short: %v, want ErrLength", err)
	}
	for raw, want := range map[string]string{
		"48000d00000a5ae3e2f3904141504c20202020542020202020":                               "AAPL",
		"510e5800021f1acee91efc0000000000001829484453202020202000062b4c000000000000d0f94f": "HDS",
	} {
		if err := m.Parse(unhex(t, raw)); err != nil || m.Stock.String() != want || m.Ref != 0 {
			t.Errorf("%+v of %s, %v, want %s", m, raw, err, want)
		}
	}
	for typ, x := range types {
		if at := int(x.stock); at != 0 && at+len(Symbol{}) > int(x.len) {
			t.Errorf("%v: the stock at %d does not fit into %d bytes", Type(typ), at, x.len)
		}
	}
}

func TestText(t *testing.T) {
	for got, want := range map[string]string{
		MakeSymbol("BRK.A").String():      "BRK.A",
		MakeSymbol("TOOLONGSYM").String(): "TOOLONGS",
		Symbol{}.String():                 "\x00\x00\x00\x00\x00\x00\x00\x00",
		MakeSymbol("").String():           "",
		Price(1234500).String():           "123.4500",
		Price(7).String():                 "0.0007",
		TypeAddOrder.String():             "'A'",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The timestamp has 48 bits on the wire; the largest must be preserved.
func TestTimestampRange(t *testing.T) {
	for _, ts := range []time.Duration{0, 1, 1<<32 - 1, 1 << 32, 24*time.Hour - 1, 1<<48 - 1} {
		in := Message{Type: TypeOrderDelete, Locate: 1, Tracking: 2, Timestamp: ts, Ref: 3}
		var out Message
		if err := out.Parse(in.Append(nil)); err != nil || out != in {
			t.Errorf("timestamp %d: message %+v after Append and Parse, error %v, want the same message", ts, out, err)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	buf := make([]byte, 0, MaxMessage)
	for _, g := range golden {
		raw := unhex(t, g.hex)
		var m Message
		if n := testing.AllocsPerRun(100, func() {
			if err := m.Parse(raw); err != nil {
				t.Fatal(err)
			}
			buf = m.Append(buf[:0])
		}); n != 0 {
			t.Errorf("%s: Parse and Append make %v allocations, want none", g.name, n)
		}
	}
}

// FuzzParse: no panics; a parsed message has its exact length, and writing it again yields the same bytes.
func FuzzParse(f *testing.F) {
	writes := map[Type]bool{}
	for _, g := range golden {
		f.Add(unhex(f, g.hex))
		writes[Type(g.name[0])] = true
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Message
		err := m.Parse(b)
		if (err == nil) != (Check(b) == nil) {
			t.Errorf("error of Parse %v, of Check %v, want both or neither", err, Check(b))
		}
		if err != nil || !writes[m.Type] {
			return
		}
		if got := m.Append(nil); len(b) != int(types[m.Type].len) || !bytes.Equal(got, b) {
			t.Errorf("message %x became %x after Parse and Append, want the same bytes", b, got)
		}
	})
}

package itch

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"
	"time"
)

// parser is what all messages of this package have; appender what those have
// that can also be written.
type parser interface{ Parse([]byte) error }
type appender interface{ Append([]byte) []byte }

// golden vectors: those marked real are from the sample in testdata, message
// and offset as given; the others are written by hand from the tables of the
// specification.
var golden = []struct {
	name string
	hex  string
	want parser
}{
	{"S real 2 at 54", "53000000001f1acedb172e51",
		&SystemEvent{Header{'S', 0, 0, 34200000075566}, EventStartOfMarketHours}},
	{"R", "52000d00000a5ae3e2f3904141504c202020205120000000644e435a20504e4e314e000000004e",
		&StockDirectory{Header{'R', 13, 0, 11385486635920}, MakeSymbol("AAPL"), 'Q', ' ', 100, 'N', 'C', [2]byte{'Z', ' '},
			'P', 'N', 'N', '1', 'N', 0, 'N'}},
	{"A real 5 at 126", "4120bd00001f1acedb597b0000000000970c7c42000000645649584d2020202000034134",
		&AddOrder{Header{'A', 8381, 0, 34200000092539}, 9899132, Buy, 100, MakeSymbol("VIXM"), 213300, [4]byte{}}},
	{"F real 7 at 185", "46180400001f1acedb69630000000000729047420000006450474620202020200002cad8464c5447",
		&AddOrder{Header{'F', 6148, 0, 34200000096611}, 7508039, Buy, 100, MakeSymbol("PGF"), 183000, [4]byte{'F', 'L', 'T', 'G'}}},
	{"E real 1 at 21", "4506bb00021f1aced9fac8000000000077de3500000050000000000000d0e6",
		&OrderExecuted{Header{'E', 1723, 2, 34200000002760}, 7855669, 80, 53478}},
	{"C real 307 at 10668", "430e5800011f1acee91efc000000000056961a00000036000000000000d0f84e00062b4c",
		&OrderExecutedPrice{Header{'C', 3672, 1, 34200000995068}, 5674522, 54, 53496, 'N', 404300}},
	{"X real 484 at 17128", "58025a00001f1aceecdb0c000000000077aefd000000c8",
		&OrderCancel{Header{'X', 602, 0, 34200001239820}, 7843581, 200}},
	{"D real 0 at 0", "440be100001f1aced9f0e600000000004a07ee",
		&OrderDelete{Header{'D', 3041, 0, 34200000000230}, 4851694}},
	{"U real 4 at 89", "55115400001f1acedb555400000000005546720000000000569e5a000003e8001c758c",
		&OrderReplace{Header{'U', 4436, 0, 34200000091476}, 5588594, 5676634, 1000, 1865100}},
	{"P real 262 at 9121", "501a9f00021f1acee4939300000000000000004200000054524f4b5520202020001502e8000000000000d0ef",
		&Trade{Header{'P', 6815, 2, 34200000697235}, 0, Buy, 84, MakeSymbol("ROKU"), 1377000, 53487}},
}

// fresh returns an empty message of the type of p.
func fresh(p parser) parser {
	return reflect.New(reflect.TypeOf(p).Elem()).Interface().(parser)
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
		got := fresh(g.want)
		if err := got.Parse(raw); err != nil {
			t.Errorf("%s: %v", g.name, err)
			continue
		}
		if !reflect.DeepEqual(got, g.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", g.name, got, g.want)
		}
		if len(raw) != Type(raw[0]).Len() {
			t.Errorf("%s: %d bytes, the table says %d", g.name, len(raw), Type(raw[0]).Len())
		}
		if a, ok := got.(appender); ok {
			if b := a.Append([]byte("before")); !bytes.Equal(b, append([]byte("before"), raw...)) {
				t.Errorf("%s: Append gives\n%x, want\n%x", g.name, b[len("before"):], raw)
			}
		}
	}
}

// Every prefix and every extension of a message is refused, and so is every
// other type.
func TestParseRefuses(t *testing.T) {
	for _, g := range golden {
		raw := unhex(t, g.hex)
		for n := range len(raw) {
			if err := fresh(g.want).Parse(raw[:n]); !errors.Is(err, ErrLength) {
				t.Errorf("%s: first %d bytes: %v, want ErrLength", g.name, n, err)
			}
		}
		if err := fresh(g.want).Parse(append(raw, 0)); !errors.Is(err, ErrLength) {
			t.Errorf("%s: a byte too many: %v, want ErrLength", g.name, err)
		}
		for _, other := range golden {
			if reflect.TypeOf(other.want) == reflect.TypeOf(g.want) {
				continue
			}
			if err := fresh(other.want).Parse(unhex(t, g.hex)); !errors.Is(err, ErrType) && !errors.Is(err, ErrLength) {
				t.Errorf("%s parsed as %T: %v", g.name, other.want, err)
			}
		}
	}
	bad := unhex(t, golden[3].hex)
	bad[19] = 'x'
	if err := new(AddOrder).Parse(bad); !errors.Is(err, ErrSide) {
		t.Errorf("side x: %v, want ErrSide", err)
	}
}

// A type that the package does not know passes through by its header.
func TestUnknownTypePassesThrough(t *testing.T) {
	msg := append([]byte("O\x00\x07\x00\x01\x00\x00\x00\x00\x00\x2a"), "whatever"...)
	h, err := ParseHeader(msg)
	if want := (Header{'O', 7, 1, 42}); err != nil || h != want {
		t.Errorf("got %+v, %v, want %+v", h, err, want)
	}
	if _, named, err := Stock(msg); named || err != nil {
		t.Errorf("Stock: named %v, %v", named, err)
	}
	if _, err := ParseHeader(msg[:headerLen-1]); !errors.Is(err, ErrLength) {
		t.Errorf("short: %v, want ErrLength", err)
	}
}

func TestStockAgreesWithParse(t *testing.T) {
	for _, g := range golden {
		got, named, err := Stock(unhex(t, g.hex))
		if err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
		field := reflect.ValueOf(g.want).Elem().FieldByName("Stock")
		if named != field.IsValid() {
			t.Errorf("%s: named %v", g.name, named)
		}
		if named && field.Interface() != got {
			t.Errorf("%s: stock %q, want %q", g.name, got, field.Interface())
		}
	}
	for raw, want := range map[string]string{ // of types that are not parsed
		"48000d00000a5ae3e2f3904141504c20202020542020202020":                               "AAPL",
		"510e5800021f1acee91efc0000000000001829484453202020202000062b4c000000000000d0f94f": "HDS",
	} {
		if got, named, err := Stock(unhex(t, raw)); !named || err != nil || got.String() != want {
			t.Errorf("stock %q of %s, %v, want %s", got, raw, err, want)
		}
	}
	for typ := range len(stockAt) {
		if at := int(stockAt[typ]); at != 0 && at+len(Symbol{}) > Type(typ).Len() {
			t.Errorf("%v: the stock at %d does not fit into %d bytes", Type(typ), at, Type(typ).Len())
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
		Buy.String():                      "B",
		TypeAddOrder.String():             "'A'",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The timestamp has 48 bits on the wire; the largest must survive.
func TestTimestampRange(t *testing.T) {
	for _, ts := range []time.Duration{0, 1, 1<<32 - 1, 1 << 32, 24*time.Hour - 1, 1<<48 - 1} {
		in := OrderDelete{Header{TypeOrderDelete, 1, 2, ts}, 3}
		var out OrderDelete
		if err := out.Parse(in.Append(nil)); err != nil || out != in {
			t.Errorf("%d: got %+v, %v", ts, out, err)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	buf := make([]byte, 0, MaxMessage)
	for _, g := range golden {
		raw := unhex(t, g.hex)
		m := fresh(g.want)
		a, _ := m.(appender)
		if n := testing.AllocsPerRun(100, func() {
			if _, err := ParseHeader(raw); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Stock(raw); err != nil {
				t.Fatal(err)
			}
			if err := m.Parse(raw); err != nil {
				t.Fatal(err)
			}
			if a != nil {
				buf = a.Append(buf[:0])
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", g.name, n)
		}
	}
}

// FuzzParse: nothing panics; what parses has its exact length, and what can be
// written again gives the same bytes.
func FuzzParse(f *testing.F) {
	for _, g := range golden {
		f.Add(unhex(f, g.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, headErr := ParseHeader(b)
		if _, _, err := Stock(b); (err == nil) != (headErr == nil) {
			t.Errorf("Stock: %v, ParseHeader: %v", err, headErr)
		}
		for _, g := range golden {
			m := fresh(g.want)
			if m.Parse(b) != nil {
				continue
			}
			if headErr != nil || len(b) != Type(b[0]).Len() {
				t.Errorf("%T accepts %x", m, b)
			}
			if a, ok := m.(appender); ok {
				if got := a.Append(nil); !bytes.Equal(got, b) {
					t.Errorf("%T: %x became %x", m, b, got)
				}
			}
		}
	})
}

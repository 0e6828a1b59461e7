package wire

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// docs/protocol §2.17.
func TestHelloGolden(t *testing.T) {
	got, err := ParseHello(goldenHello)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, goldenHelloValue) {
		t.Errorf("got %+v, want %+v", got, goldenHelloValue)
	}
	h := goldenHeaderOf(TypeNAK, 0) // the type of the argument is ignored
	testAppend(t, goldenHello, func(b []byte) []byte { return AppendHello(b, h, &goldenHelloValue) })
}

// docs/protocol §13.3.
func TestHelloErrors(t *testing.T) {
	g := goldenHello
	testErrors(t, parse, []errorCase{
		{"no name", change(g, 45, 0), nil},
		{"longest name", change(g, 45, MaxName), nil},
		{"name too long", change(g, 45, MaxName+1), ErrMalformed},
		{"largest length of a name", change(g, 45, 255), ErrMalformed},
		{"unknown bits", change(g, 44, 0xff), nil},
		{"reserved bytes", change(g, 46, 0xff, 0xff), nil},
		{"unknown mapping and checksum", change(g, 36, 0xff, 0xff), nil},
		{"packet size 0", change16(g, 38, 0), nil}, // checked by the caller
	})
	x := Hello{Name: []byte(strings.Repeat("x", MaxName+1))}
	b := AppendHello(nil, goldenHeader, &x)
	if got, err := ParseHello(b); err != nil || len(got.Name) != MaxName || len(b) != HelloLen {
		t.Errorf("a name of %d bytes became %d, in %d bytes: error %v, want %d in %d", len(x.Name), len(got.Name), len(b), err, MaxName, HelloLen)
	}
}

// The fields that every version has are read from packets of any version, and so are hellos. docs/protocol §2.5, §18.1.
func TestOtherVersions(t *testing.T) {
	for _, g := range golden {
		for _, v := range []uint8{0, 1, 2, 255} {
			b := change(g.packet, 2, v)
			version, h, err := ParseKept(b)
			if want := goldenHeaderOf(g.typ, 0); err != nil || version != v || h != want {
				t.Errorf("%s of version %d: version %d, header %+v, error %v, want header %+v", g.name, v, version, h, err, want)
			}
		}
	}
	for _, b := range [][]byte{nil, {'x'}, []byte("Ff"), goldenHello[:HeaderLen-1]} {
		if _, _, err := ParseKept(b); err != ErrShort {
			t.Errorf("ParseKept(%q): error %v, want %v", b, err, ErrShort)
		}
	}
	if _, _, err := ParseKept([]byte("no")); err != ErrForeign {
		t.Errorf("ParseKept of a foreign packet: error %v, want %v", err, ErrForeign)
	}
	// A later version may append fields.
	later := append(change(goldenHello, 2, 7), "more"...)
	if got, err := ParseHello(later); err != nil || !reflect.DeepEqual(got, goldenHelloValue) {
		t.Errorf("a hello of version 7: %+v, error %v, want %+v", got, err, goldenHelloValue)
	}
}

// docs/protocol §2.17.
func TestTopicFilter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		topics int
		most   float64 // maximum share of false positives
	}{{0, 0}, {1, 0.001}, {50, 0.03}, {200, 0.4}} {
		var f TopicFilter
		in := make([]uint64, c.topics)
		for i := range in {
			in[i] = rnd.Uint64()
			f.Add(in[i])
		}
		for _, id := range in {
			if !f.May(id) {
				t.Errorf("%d topics: %x was added and is missing", c.topics, id)
			}
		}
		wrong := 0
		const tries = 10000
		for range tries {
			if f.May(rnd.Uint64()) {
				wrong++
			}
		}
		if share := float64(wrong) / tries; share > c.most {
			t.Errorf("%d topics: a share %g of other topics are false positives, want at most %g", c.topics, share, c.most)
		}
	}
}

func FuzzParseHello(f *testing.F) {
	addGolden(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		b = exact(b)
		want, err := ParseHello(b)
		if err != nil {
			return
		}
		if len(want.Name) > MaxName || !within(want.Name, b) {
			t.Errorf("hello with the name %q accepted, want an error", want.Name)
		}
		again := AppendHello(nil, goldenHeaderOf(0, FlagSolicit), &want)
		if len(again) > len(b) {
			t.Errorf("%d bytes written again, want at most the original %d", len(again), len(b))
		}
		checkAgain(t, again, TypeHello)
		got, err := ParseHello(again)
		if err != nil || !bytes.Equal(got.Name, want.Name) {
			t.Errorf("name %q, %v, want %q", got.Name, err, want.Name)
		}
		got.Name, want.Name = nil, nil
		if !reflect.DeepEqual(got, want) {
			t.Errorf("hello %+v, want %+v\n%s", got, want, hex.Dump(again))
		}
	})
}

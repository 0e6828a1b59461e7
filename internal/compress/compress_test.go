package compress

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/topics"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// runs returns a run of n similar messages.
func runs(n int) []byte {
	b := make([]byte, wire.RunHeaderLen)
	for i := range n {
		m := fmt.Appendf(nil, `{"symbol":"ABC%d","bid":%d,"ask":%d}`, i%30, 1000+i*7%90, 1010+i*3%90)
		b = binary.LittleEndian.AppendUint16(b, uint16(len(m)))
		b = append(b, m...)
	}
	wire.PutRunHeader(b, wire.RunMessages, len(b)-wire.RunHeaderLen, 7, 9)
	return b
}

func dictionaries(t testing.TB) []*Dictionary {
	t.Helper()
	formatted, err := Train([][]byte{runs(30), runs(40), runs(35)}, 8<<10)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := NewDictionary(runs(50))
	if err != nil {
		t.Fatal(err)
	}
	return []*Dictionary{nil, formatted, raw}
}

func specs(t testing.TB) (all []Spec) {
	for _, name := range Names()[1:] {
		s, err := Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// Unpacking restores packed data, without allocations. docs/protocol §26.2.
func TestPack(t *testing.T) {
	testenv.Slow(t)
	dicts := dictionaries(t)
	u := NewUnpacker(dicts[1:])
	for _, spec := range specs(t) {
		for i, dict := range dicts {
			t.Run(fmt.Sprint(spec, i), func(t *testing.T) {
				p, err := New(spec, dict)
				if dict != nil && spec.String() == "s2:better" {
					if err == nil {
						t.Error("s2:better accepts a dictionary, want an error")
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				packed, plain := make([]byte, 0, topics.PackedRoom), make([]byte, 0, wire.MaxRuns)
				for _, n := range []int{1, 2, 40, 1500} {
					b := runs(n)
					f := func() {
						x := wire.Packed{Len: len(b)}
						x.Codec, x.Dict = p.Kind()
						x.Bytes = p.Pack(packed, b)
						got, err := u.Unpack(plain, x)
						if err != nil || !bytes.Equal(got, b) {
							t.Fatalf("%d messages unpacked: error %v, %d bytes, want the %d packed ones", n, err, len(got), len(b))
						}
					}
					for range 10 { // to fill the pools
						f()
					}
					if testing.Short() {
						continue // with the race detector pools drop items on purpose
					}
					if a := min(testing.AllocsPerRun(20, f), testing.AllocsPerRun(20, f), testing.AllocsPerRun(20, f)); a > 0 {
						t.Errorf("%d messages: %v allocations, want none", n, a)
					}
				}
			})
		}
	}
}

// A decompression bomb, a wrong length, damage and an unknown dictionary are errors, and nothing is written beyond the
// length. docs/protocol §26.3, §26.5.
func TestBadPacks(t *testing.T) {
	dicts := dictionaries(t)
	b := bytes.Repeat([]byte{0}, 60_000) // 1000 to 1
	for _, spec := range specs(t) {
		for i, dict := range dicts {
			p, err := New(spec, dict)
			if dict != nil && spec.String() == "s2:better" {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			good := wire.Packed{Len: len(b)}
			good.Codec, good.Dict = p.Kind()
			good.Bytes = bytes.Clone(p.Pack(make([]byte, 0, topics.PackedRoom), b))
			all := NewUnpacker(dicts[1:])
			unpack := func(u *Unpacker, p wire.Packed) error {
				mem := bytes.Repeat([]byte{0xee}, 70_000)
				got, err := u.Unpack(mem[:8], p)
				if err == nil && len(got) != 8+p.Len {
					t.Errorf("%v, dictionary %d: %d bytes of %d without an error", spec, i, len(got), p.Len)
				}
				if n := 8 + p.Len; len(bytes.Trim(mem[n:], "\xee")) > 0 {
					t.Errorf("%v, dictionary %d: Unpack wrote beyond %d bytes", spec, i, p.Len)
				}
				return err
			}
			if err := unpack(all, good); err != nil {
				t.Errorf("%v: unpacking with dictionary %d: %v", spec, i, err)
			}
			for _, n := range []int{1, 1000, len(b) - 1, len(b) + 1} {
				x := good
				if x.Len = n; unpack(all, x) == nil {
					t.Errorf("%v, dictionary %d: %d bytes are accepted as %d", spec, i, len(b), n)
				}
			}
			step := 1
			if testing.Short() {
				step = 37
			}
			for n := 0; n < len(good.Bytes); n += step {
				x := good
				if x.Bytes = good.Bytes[:n]; unpack(all, x) == nil {
					t.Errorf("%v, dictionary %d: truncated to %d of %d bytes it is accepted", spec, i, n, len(good.Bytes))
				}
			}
			x := good
			if x.Codec = 3; unpack(all, x) == nil {
				t.Errorf("codec 3 is accepted")
			}
			if err := unpack(NewUnpacker(nil), good); dict != nil && !errors.Is(err, wire.ErrDictionary) {
				t.Errorf("%v without its dictionary: error %v, want %v", spec, err, wire.ErrDictionary)
			}
		}
	}
}

// FuzzUnpack passes random bytes to each codec, with and without a dictionary.
func FuzzUnpack(f *testing.F) {
	dicts := dictionaries(f)
	u := NewUnpacker(dicts[1:])
	for _, spec := range specs(f) {
		for i, d := range dicts {
			p, err := New(spec, d)
			if err != nil {
				continue
			}
			b := runs(20)
			f.Add(byte(spec.Codec), byte(i), uint16(len(b)), bytes.Clone(p.Pack(make([]byte, 0, topics.PackedRoom), b)))
		}
	}
	f.Fuzz(func(t *testing.T, codec, dict byte, n uint16, b []byte) {
		p := wire.Packed{Codec: wire.Codec(codec), Len: int(n), Bytes: b}
		if d := dicts[int(dict)%len(dicts)]; d != nil {
			p.Dict = d.Hash
		}
		mem := bytes.Repeat([]byte{0xee}, 8+int(n)+100)
		got, err := u.Unpack(mem[:8], p)
		if err == nil && len(got) != 8+int(n) {
			t.Errorf("%d bytes, want %d", len(got)-8, n)
		}
		if len(bytes.Trim(mem[8+int(n):], "\xee")) > 0 {
			t.Errorf("Unpack wrote beyond %d bytes", n)
		}
	})
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "none"}, {"none", "none"}, {"s2", "s2:default"}, {"s2:better", "s2:better"}, {"zstd", "zstd:fastest"}, {"zstd:fastest", "zstd:fastest"},
	} {
		if s, err := Parse(c.text); err != nil || s.String() != c.want {
			t.Errorf("%q is %v, %v, want %s", c.text, s, err, c.want)
		}
	}
	for _, text := range []string{"lz4", "s2:", "s2:best", "zstd:3", "none:", ":", "S2"} {
		if s, err := Parse(text); err == nil {
			t.Errorf("%q is accepted as %v", text, s)
		}
	}
}

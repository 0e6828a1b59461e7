package tap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

var captureSeeds = flag.Int("tap.captures", 2000, "number of captures compared with pcapgo")

// Another reader, pcapgo, reads the same frames from any capture within what both support: sections,
// interfaces, resolutions of ten to 10^9 a second, and all kinds of blocks, in both byte orders.
func TestSameFramesAsPcapgo(t *testing.T) {
	for seed := range uint64(*captureSeeds) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var file []byte
		for range 1 + rng.IntN(3) {
			f := orders[[]string{"little endian", "big endian"}[rng.IntN(2)]]().section(1)
			interfaces := 1 + rng.IntN(3)
			for range interfaces {
				f.block(blockInterface, uint16([]linkType{linkRaw, linkEthernet, linkSLL}[rng.IntN(3)]), uint16(0), uint32(0),
					uint16(optionResolution), uint16(1), byte(1+rng.IntN(9)), [3]byte{}, uint32(0))
			}
			for range rng.IntN(9) {
				data := make([]byte, rng.IntN(40))
				for i := range data {
					data[i] = byte(rng.Uint32())
				}
				n, number, at := uint32(len(data)), rng.IntN(interfaces), rng.Uint32N(2_000_000_000)
				switch rng.IntN(4) {
				case 0:
					f.block(blockPacket, uint16(number), uint16(0), uint32(0), at, n, n, data)
				case 1:
					f.block(blockSimple, n, data)
				case 2:
					f.block(uint32(20+rng.IntN(9)), data)
				default:
					f.block(blockEnhanced, uint32(number), uint32(0), at, n, n, data)
				}
			}
			file = append(file, f.b...)
		}
		got, err := framesOf(t, file)
		if err != nil {
			t.Fatalf("seed %d: the file cannot be read: %v", seed, err)
		}
		other, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.NgReaderOptions{WantMixedLinkType: true})
		if err != nil {
			t.Fatalf("seed %d: pcapgo cannot read the file: %v", seed, err)
		}
		for i, g := range got {
			data, info, err := other.ReadPacketData()
			if err != nil {
				t.Fatalf("seed %d, frame %d: pcapgo cannot read it: %v", seed, i, err)
			}
			if link := info.AncillaryData[0].(layers.LinkType); !bytes.Equal(g.data, data) || !g.at.Equal(info.Timestamp) || g.link != linkType(link) {
				t.Fatalf("seed %d, frame %d: %v at %v, link %d; pcapgo has %v at %v, link %d", seed, i, g.data, g.at, g.link, data, info.Timestamp, link)
			}
		}
		if _, _, err := other.ReadPacketData(); err != io.EOF {
			t.Fatalf("seed %d: pcapgo has more than %d frames: %v", seed, len(got), err)
		}
	}
}

// fileOf writes the structures of captures, in either byte order.
type fileOf struct {
	binary.ByteOrder
	b []byte
}

func (f *fileOf) put(values ...any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		if err := binary.Write(&b, f.ByteOrder, v); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

// block adds a block.
func (f *fileOf) block(kind uint32, values ...any) *fileOf {
	body := f.put(values...)
	body = append(body, make([]byte, -len(body)&3)...)
	n := uint32(len(body) + blockAround)
	f.b = append(f.b, append(append(f.put(kind, n), body...), f.put(n)...)...)
	return f
}

func (f *fileOf) section(major uint16) *fileOf {
	return f.block(blockSection, uint32(byteOrderMagic), major, uint16(0), int64(-1))
}

var orders = map[string]func() *fileOf{
	"little endian": func() *fileOf { return &fileOf{ByteOrder: binary.LittleEndian} },
	"big endian":    func() *fileOf { return &fileOf{ByteOrder: binary.BigEndian} },
}

// framesOf reads a capture to its end.
func framesOf(t *testing.T, file []byte) (list []frame, err error) {
	t.Helper()
	src, err := OpenFile(bytes.NewReader(file), testGroups)
	if err != nil {
		return nil, err
	}
	for {
		f, err := src.(*capture).frames.next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		f.data = bytes.Clone(f.data)
		list = append(list, f)
	}
}

// Timestamps use the resolution and offset of their interface: draft-ietf-opsawg-pcapng §4.2.
func TestTimesOfInterfaces(t *testing.T) {
	resolution := func(r byte) []any { return []any{uint16(optionResolution), uint16(1), r, [3]byte{}} }
	for order, file := range orders {
		for _, c := range []struct {
			name    string
			options []any
			ts      uint64
			want    time.Time
		}{
			{"microseconds by default", nil, 1_700_000_000_123_456, time.Unix(1_700_000_000, 123_456_000)},
			{"seconds", resolution(0), 1_700_000_000, time.Unix(1_700_000_000, 0)},
			{"nanoseconds", resolution(9), 1_700_000_000_123_456_789, time.Unix(1_700_000_000, 123_456_789)},
			{"finer", resolution(12), 5_123_456_789_999, time.Unix(5, 123_456_789)},
			{"the finest", resolution(19), 1<<64 - 1, time.Unix(1, 844_674_407)},
			{"halves", resolution(0x81), 7, time.Unix(3, 500_000_000)},
			{"a power of two", resolution(0x80 | 32), 9<<32 | 1<<31, time.Unix(9, 500_000_000)},
			{"the finest of two", resolution(0xbf), 1<<63 | 1<<62, time.Unix(1, 500_000_000)},
			{"an offset", []any{uint16(2), uint16(3), [4]byte{'e', 't', 'h'}, uint16(optionOffset), uint16(8), int64(-60), uint16(0), uint16(0)}, 61_000_000, time.Unix(1, 0)},
			{"a resolution that is not representable", resolution(20), 1, time.Time{}},
			{"an offset beyond all times", []any{uint16(optionOffset), uint16(8), int64(1) << 62}, 1, time.Time{}},
			{"before 1970", []any{uint16(optionOffset), uint16(8), int64(-9)}, 1, time.Time{}},
			{"undeclared nanoseconds", nil, 1_700_000_000_123_456_789, time.Time{}},
			{"the last", resolution(0), 253402300799, time.Unix(253402300799, 0)},
			{"options after the end", append([]any{uint16(0), uint16(0)}, resolution(9)...), 1_000_000, time.Unix(1, 0)},
		} {
			f := file().section(1).block(blockInterface, append([]any{uint16(linkRaw), uint16(0), uint32(0)}, c.options...)...)
			f.block(blockEnhanced, uint32(0), uint32(c.ts>>32), uint32(c.ts), uint32(1), uint32(1), byte(7))
			got, err := framesOf(t, f.b)
			if err != nil || len(got) != 1 || !got[0].at.Equal(c.want) {
				t.Errorf("%s, %s: frames %v, error %v, want one at %v", order, c.name, got, err, c.want)
			}
		}
	}
}

// Every kind of block with a frame is read correctly, with other blocks between, from any
// interface; sections of other versions are skipped.
func TestBlocks(t *testing.T) {
	for order, file := range orders {
		f := file().section(1)
		f.block(blockInterface, uint16(linkRaw), uint16(0), uint32(0)).block(blockInterface, uint16(linkEthernet), uint16(0), uint32(3))
		f.block(blockEnhanced, uint32(1), uint32(0), uint32(5_000_000), uint32(2), uint32(9), [2]byte{1, 2})
		f.block(77, [8]byte{})
		f.block(blockPacket, uint16(1), uint16(4), uint32(0), uint32(6_000_000), uint32(1), uint32(9), byte(3), [3]byte{}, uint32(0))
		f.block(blockSimple, uint32(3), [3]byte{4, 5, 6})
		f.section(2).block(blockInterface, uint16(linkIB)).block(blockEnhanced, uint32(0))
		f.section(1).block(blockInterface, uint16(linkSLL), uint16(0), uint32(2)).block(blockSimple, uint32(8), [4]byte{7, 8})
		f.b = append(f.b, orders["big endian"]().section(1).block(blockInterface, uint16(linkNull), uint16(0), uint32(0)).
			block(blockSimple, uint32(8), [4]byte{9, 10, 11, 12}).b...) // the recorded part of a frame of eight bytes
		want := []frame{
			{data: []byte{1, 2}, at: time.Unix(5, 0), link: linkEthernet}, {data: []byte{3}, at: time.Unix(6, 0), link: linkEthernet},
			{data: []byte{4, 5, 6}, link: linkRaw}, {left: errVersion}, {data: []byte{7, 8}, link: linkSLL}, {data: []byte{9, 10, 11, 12}, link: linkNull},
		}
		got, err := framesOf(t, f.b)
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: frames %v, error %v, want %d", order, got, err, len(want))
		}
		for i, g := range got {
			if w := want[i]; !bytes.Equal(g.data, w.data) || !g.at.Equal(w.at) || g.link != w.link || g.left != w.left {
				t.Errorf("%s, frame %d: %v, want %v", order, i, g, w)
			}
		}
	}
}

// The format pcap has two byte orders and micro- or nanoseconds; above its link type there are flags.
func TestPcapForms(t *testing.T) {
	for order, file := range orders {
		for magic, nanos := range map[uint32]int64{magicMicro: 7000, magicNano: 7} {
			f := file()
			b := f.put(magic, uint16(2), uint16(4), int32(0), uint32(0), uint32(65535), uint32(linkRaw)|0x4400_0000,
				uint32(3), uint32(7), uint32(2), uint32(9), [2]byte{1, 2}, uint32(4), uint32(8), uint32(0), uint32(0))
			got, err := framesOf(t, b)
			if err != nil || len(got) != 2 || !got[0].at.Equal(time.Unix(3, nanos)) || got[0].link != linkRaw || !bytes.Equal(got[0].data, []byte{1, 2}) || len(got[1].data) > 0 {
				t.Errorf("%s, %#x: frames %v, error %v, want 2, the first at 3 s and %d ns with 2 bytes", order, magic, got, err, nanos)
			}
		}
	}
}

// Contradictions in a capture are errors with a specific text.
func TestDamagedBlocks(t *testing.T) {
	for order, file := range orders {
		begin := func() *fileOf {
			return file().section(1).block(blockInterface, uint16(linkRaw), uint16(0), uint32(0))
		}
		wrongEnd := begin().b
		wrongEnd[len(wrongEnd)-1]++
		wrongEnd[len(wrongEnd)-4]++
		for _, c := range []struct {
			name     string
			file     []byte
			wantText string
		}{
			{"no byte order", file().block(blockSection, uint32(5), uint16(1), uint16(0), int64(-1)).b, "without a valid byte order"},
			{"a short section", file().block(blockSection, uint32(byteOrderMagic)).b, "too short"},
			{"a short interface", begin().block(blockInterface, uint16(1)).b, "too short"},
			{"a short frame", begin().block(blockEnhanced, uint32(0)).b, "too short"},
			{"a short old frame", begin().block(blockPacket, uint32(0)).b, "too short"},
			{"an empty frame", begin().block(blockSimple).b, "too short"},
			{"another end", wrongEnd, "with a final length of"},
			{"a long option", file().section(1).block(blockInterface, uint16(linkRaw), uint16(0), uint32(0), uint16(2), uint16(9)).b, "longer than its block"},
			{"another end of a block without frames", append(begin().b, file().put(uint32(77), uint32(16), uint32(0), uint32(20))...), "of 16 bytes with a final length of 20"},
			{"unsupported version of pcapng", file().section(2).b, "unsupported version of pcapng"},
			{"a cut header", begin().b[:20], "ends within its header"},
			{"a cut header of pcap", file().put(uint32(magicMicro), uint16(2)), "ends within its header"},
			{"cut where there are no frames", append(begin().b, file().put(uint32(77), uint32(16), uint32(0))...), "unexpected EOF"},
			{"an unknown interface", begin().block(blockEnhanced, uint32(1), uint32(0), uint32(0), uint32(0), uint32(0)).b, "interface 1, which"},
			{"no interface", file().section(1).block(blockSimple, uint32(0)).b, "interface 0, which"},
			{"longer than its block", begin().block(blockEnhanced, uint32(0), uint32(0), uint32(0), uint32(5), uint32(5), [4]byte{}).b, "with room for 4"},
			{"another version", file().put(uint32(magicMicro), uint16(2), uint16(3), [16]byte{}), "version 2.3 of pcap"},
		} {
			if _, err := framesOf(t, c.file); err == nil || !strings.Contains(err.Error(), c.wantText) {
				t.Errorf("%s, %s: error %v, want %q", order, c.name, err, c.wantText)
			}
		}
	}
}

// A skipped section of another version is reported.
func TestOtherVersionIsReported(t *testing.T) {
	f := orders["little endian"]().section(1).section(2).section(3)
	_, src, err := readAll(t, f.b)
	if s := src.Skipped(); err != nil || len(s) != 1 || s[errVersion.Error()] != 2 {
		t.Errorf("packets skipped %v, error %v, want 2 as %q", s, err, errVersion)
	}
}

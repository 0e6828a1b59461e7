package rocev2

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/fanfaremq/fanfare/rdma/internal/rocev2/frames"
)

var seed = flag.Uint64("rocev2.seed", 0, "seed of the random tests; 0 means a random one")

func newRand(t testing.TB) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-rocev2.seed=%d repeats this", s)
	return rand.New(rand.NewPCG(s, 4791))
}

// accepts reports whether a receiver that sees the complete packet accepts it.
func accepts(packet []byte) bool {
	var p Path
	var n Net
	b, err := p.ParseIP(packet, &n)
	if err != nil || p.DstPort != Port {
		return false
	}
	var h Header
	_, err = h.Parse(b)
	return err == nil && Sum(p.Prefix(len(b)), b) == Want(b)
}

// masked returns the bits of byte i of an IP packet that the ICRC does not cover.
func masked(ipv4 bool, i int) byte {
	if ipv4 {
		switch i {
		case 1, 8, 10, 11, 20 + 6, 20 + 7, 28 + 4:
			return 0xff
		}
		return 0
	}
	switch i {
	case 0:
		return 0x0f
	case 1, 2, 3, 7, 40 + 6, 40 + 7, 48 + 4:
		return 0xff
	}
	return 0
}

func TestEveryFlippedBit(t *testing.T) {
	for _, g := range goldens {
		packet := g.frame(t)[14:]
		if !accepts(packet) {
			t.Fatalf("%s is not accepted", g.name)
		}
		for i := range packet {
			for bit := range 8 {
				packet[i] ^= 1 << bit
				want := masked(g.path.IsIPv4(), i)>>bit&1 != 0
				if got := accepts(packet); got != want {
					t.Errorf("%s with bit %d of byte %d flipped: accepted %v, want %v", g.name, bit, i, got, want)
				}
				packet[i] ^= 1 << bit
			}
		}
	}
}

func TestEveryTruncation(t *testing.T) {
	for _, g := range goldens {
		packet := g.frame(t)[14:]
		for n := range packet {
			if accepts(bytes.Clone(packet[:n])) {
				t.Errorf("%s truncated to %d bytes is accepted", g.name, n)
			}
			// As read from a UDP socket, with the lengths of the truncated datagram.
			if at := HeaderBytes(g.path.IsIPv4()); n >= at {
				b := bytes.Clone(packet[at:n])
				var h Header
				if _, err := h.Parse(b); err != nil {
					continue
				}
				p := g.path
				sum, want := Sum(p.Prefix(len(b)), b), Want(b)
				if sum == want {
					t.Errorf("%s truncated to %d bytes of UDP has the right ICRC", g.name, n-at)
				}
			}
		}
		// Bytes after the end of the IP packet are ignored, because Ethernet pads frames.
		if !accepts(append(packet, 1, 2, 3)) {
			t.Errorf("%s with an Ethernet trailer is not accepted", g.name)
		}
	}
}

func TestParseErrors(t *testing.T) {
	good := goldens[1].frame(t)[14+28:]
	for _, c := range []struct {
		name string
		edit func(b []byte) []byte
		want error
	}{
		{"nothing", func(b []byte) []byte { return nil }, ErrShort},
		{"too short for immediate data", func(b []byte) []byte { return b[:24] }, ErrShort},
		{"odd length", func(b []byte) []byte { return b[:33] }, ErrLength},
		{"too long", func(b []byte) []byte { return append(b, make([]byte, MaxBytes)...) }, ErrLength},
		{"one word too long without immediate data", func(b []byte) []byte {
			b = append(b, make([]byte, MaxBytes-len(b))...)
			b[0] = 0x64
			return b
		}, ErrLength},
		{"RC opcode", func(b []byte) []byte { b[0] = 0x04; return b }, ErrOpcode},
		{"unknown UD opcode", func(b []byte) []byte { b[0] = 0x66; return b }, ErrOpcode},
		{"version 1", func(b []byte) []byte { b[1] |= 1; return b }, ErrVersion},
		{"QP 0", func(b []byte) []byte { b[5], b[6], b[7] = 0, 0, 0; return b }, ErrQPN},
		{"pad without payload", func(b []byte) []byte { b = b[:28]; b[1] = 0x30; return b }, ErrPad},
	} {
		var h Header
		if _, err := h.Parse(c.edit(bytes.Clone(good))); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
}

func TestPads(t *testing.T) {
	for n := range 9 {
		h := Header{PKey: 0xffff, DestQPN: 1, HasImm: n%2 == 0}
		b := bytes.Repeat([]byte{0xee}, h.Size(n))
		copy(h.Put(b, n), "payloads")
		p := goldens[0].path
		SetICRC(p.Prefix(len(b)), b)
		var got Header
		payload, err := got.Parse(b)
		if err != nil || string(payload) != "payloads"[:n] || got != h {
			t.Errorf("%d bytes: payload %q, error %v, want %q", n, payload, err, "payloads"[:n])
		}
		if len(b)%4 != 0 {
			t.Errorf("%d bytes of payload have a size of %d, want a multiple of 4", n, len(b))
		}
		for _, c := range b[h.Bytes()+n : len(b)-4] {
			if c != 0 {
				t.Errorf("pad of %d bytes is % x, want zeros", n, b)
			}
		}
	}
}

// Recover finds every identification, for datagrams of many lengths, and a share of 2^-15 of random damage passes.
func TestRecover(t *testing.T) {
	r := newRand(t)
	p := goldens[0].path
	for range 20000 {
		h := Header{PKey: 0xffff, DestQPN: 0xffffff, SrcQPN: 99, PSN: r.Uint32() & 0xffffff, HasImm: r.IntN(2) == 0}
		n := r.IntN(MaxPayload + 1)
		b := make([]byte, h.Size(n))
		h.Put(b, n)
		p.ID, p.DontFragment = uint16(r.Uint32()), r.IntN(2) == 0
		prefix := p.Prefix(len(b))
		SetICRC(prefix, b)
		id, df := p.ID, p.DontFragment
		p.ID, p.DontFragment = 0, true
		base := p.Prefix(len(b))
		if df && WithID(base, id) != prefix {
			t.Fatalf("WithID(%#x) differs from Prefix", id)
		}
		gotID, gotDF, ok := Recover(Sum(base, b), Want(b), len(b))
		if !ok || gotID != id || gotDF != df {
			t.Fatalf("id %#x DF %v of %d bytes: recovered %#x %v, %v", id, df, len(b), gotID, gotDF, ok)
		}
	}
	const draws = 1 << 22
	passed := 0
	for range draws {
		if _, _, ok := Recover(r.Uint32(), r.Uint32(), 4*(6+r.IntN(1000))); ok {
			passed++
		}
	}
	// 128 are expected; the limits are ±6 standard deviations.
	if passed < 60 || passed > 196 {
		t.Errorf("%d of %d random differences passed, want about %d", passed, draws, draws>>15)
	}
}

func TestNoAllocation(t *testing.T) {
	g := goldens[1]
	packet := g.frame(t)[14:]
	out := make([]byte, len(packet))
	var p Path
	var n Net
	var h Header
	q := g.path
	if a := testing.AllocsPerRun(100, func() {
		b, err := p.ParseIP(packet, &n)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := h.Parse(b)
		if err != nil || Sum(p.Prefix(len(b)), b) != Want(b) {
			t.Fatal(err)
		}
		at := q.PutIP(out, &n, len(b))
		copy(h.Put(out[at:], len(payload)), payload)
		SetICRC(WithID(q.Prefix(len(b)), 5), out[at:])
		Recover(Sum(q.Prefix(len(b)), out[at:]), Want(out[at:]), len(b))
	}); a != 0 {
		t.Errorf("%v allocations, want none", a)
	}
}

func FuzzIP(f *testing.F) {
	for _, frame := range frames.All(f) {
		f.Add(frame.Packet())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		ok := accepts(b)
		if !bytes.Equal(b, before) {
			t.Fatal("the packet was changed")
		}
		if !ok {
			return
		}
		// An accepted datagram equals that of Put, except in masked fields and fields that receivers ignore.
		var p Path
		var n Net
		var h Header
		ib, _ := p.ParseIP(b, &n)
		payload, _ := h.Parse(ib)
		out := make([]byte, h.Size(len(payload)))
		copy(h.Put(out, len(payload)), payload)
		if len(out) != len(ib) || !bytes.Equal(out[h.Bytes():h.Bytes()+len(payload)], payload) {
			t.Fatalf("encoded % x, want the header and the payload of % x", out, ib)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, frame := range frames.All(f) {
		p := frame.Packet()
		f.Add(p[HeaderBytes(p[0]>>4 == 4):])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var h, again Header
		payload, err := h.Parse(b)
		if err != nil {
			return
		}
		out := make([]byte, h.Size(len(payload)))
		copy(h.Put(out, len(payload)), payload)
		p := goldens[0].path
		SetICRC(p.Prefix(len(out)), out)
		back, err := again.Parse(out)
		if err != nil || again != h || !bytes.Equal(back, payload) {
			t.Fatalf("packet %+v %x became %+v %x, error %v", h, payload, again, back, err)
		}
		Recover(Sum(p.Prefix(len(b)), b), Want(b), len(b))
	})
}

func BenchmarkSetICRC(b *testing.B) {
	h := Header{DestQPN: 0xffffff}
	buf := make([]byte, h.Size(2048))
	h.Put(buf, 2048)
	p := goldens[0].path
	b.SetBytes(int64(len(buf)))
	prefix := p.Prefix(len(buf))
	for b.Loop() {
		SetICRC(WithID(prefix, 7), buf)
	}
}

func BenchmarkRecover(b *testing.B) {
	for b.Loop() {
		Recover(1, 2, 2072)
	}
}

// Whether damage passes the weak check depends on the flipped bits and their positions from the IP header, not on the
// content of the datagram. For single bits only these positions pass.
func TestFlippedBitsThatPassRecover(t *testing.T) {
	p := Path{Src: goldens[0].path.Src, Dst: goldens[0].path.Dst, SrcPort: 57236, DstPort: Port, DontFragment: true}
	h := Header{PKey: 0xffff, DestQPN: 0xffffff, SrcQPN: 17}
	var passed []string
	b := make([]byte, h.Size(MaxPayload))
	h.Put(b, MaxPayload)
	prefix := p.Prefix(len(b))
	SetICRC(prefix, b)
	for i := range b {
		for bit := range 8 {
			if b[i] ^= 1 << bit; i != 4 {
				if _, _, ok := Recover(Sum(prefix, b), Want(b), len(b)); ok {
					passed = append(passed, fmt.Sprintf("byte %d bit %d", i, bit))
				}
			}
			b[i] ^= 1 << bit
		}
	}
	if want := []string{"byte 173 bit 3", "byte 1834 bit 6"}; !slices.Equal(passed, want) {
		t.Errorf("these pass: %q, want %q", passed, want)
	}
}

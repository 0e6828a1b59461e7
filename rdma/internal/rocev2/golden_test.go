package rocev2

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
)

// golden is a packet from the Ethernet header on, and what it is made from.
type golden struct {
	name    string
	frame   string
	made    bool // by this codec bit by bit; the others were captured
	path    Path
	net     Net
	head    Header
	payload string
	icrc    uint32
}

var (
	mac1  = "020000000001"
	group = rdma.GID{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3}
	host  = rdma.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}
)

// Packets A, B and C are computed from the rules of IBTA and of Linux's
// rxe_icrc.c. D is one that rxe of Linux 6.1 sent for mckey -s, captured on the
// wire.
var goldens = []golden{
	{
		name: "A", made: true, icrc: 0xce7cf284, payload: "hello",
		frame: `01 00 5e 01 02 03 02 00 00 00 00 01 08 00 45 00
		        00 3c 12 34 40 00 40 11 2d 78 0a 00 00 01 ef 01
		        02 03 df 94 12 b7 00 28 00 00 64 30 ff ff 00 ff
		        ff ff 00 00 00 00 01 23 45 67 00 00 00 11 68 65
		        6c 6c 6f 00 00 00 84 f2 7c ce`,
		path: Path{Src: host, Dst: group, SrcPort: 57236, DstPort: Port, ID: 0x1234, DontFragment: true},
		net:  Net{HopLimit: 64},
		head: Header{PKey: 0xffff, DestQPN: 0xffffff, QKey: 0x01234567, SrcQPN: 17},
	},
	{
		name: "B", made: true, icrc: 0x8acc8119, payload: "\x00\x01\x02\x03\x04\x05\x06\x07",
		frame: `01 00 5e 01 02 03 02 00 00 00 00 01 08 00 45 00
		        00 40 00 00 40 00 40 11 3f a8 0a 00 00 01 ef 01
		        02 03 df 94 12 b7 00 2c 00 00 65 00 ff ff 00 ff
		        ff ff 00 00 00 01 01 23 45 67 00 00 00 11 00 00
		        00 11 00 01 02 03 04 05 06 07 19 81 cc 8a`,
		path: Path{Src: host, Dst: group, SrcPort: 57236, DstPort: Port, DontFragment: true},
		net:  Net{HopLimit: 64},
		head: Header{HasImm: true, PKey: 0xffff, DestQPN: 0xffffff, PSN: 1, QKey: 0x01234567, SrcQPN: 17, Imm: [4]byte{0, 0, 0, 0x11}},
	},
	{
		name: "C", made: true, icrc: 0xc7ba8663, payload: "hello",
		frame: `33 33 00 00 12 34 02 00 00 00 00 01 86 dd 60 00
		        00 00 00 28 11 40 fe 80 00 00 00 00 00 00 00 00
		        00 00 00 00 00 01 ff 15 00 00 00 00 00 00 00 00
		        00 00 00 00 12 34 df 94 12 b7 00 28 00 00 64 30
		        ff ff 00 ff ff ff 00 00 00 00 01 23 45 67 00 00
		        00 11 68 65 6c 6c 6f 00 00 00 63 86 ba c7`,
		path: Path{Src: rdma.GID{0: 0xfe, 1: 0x80, 15: 1}, Dst: rdma.GID{0: 0xff, 1: 0x15, 14: 0x12, 15: 0x34}, SrcPort: 57236, DstPort: Port},
		net:  Net{HopLimit: 64},
		head: Header{PKey: 0xffff, DestQPN: 0xffffff, QKey: 0x01234567, SrcQPN: 17},
	},
	{
		name: "D", icrc: 0x1250e30e,
		payload: "\x2d\x09\xf4\x5e\x05" + strings.Repeat("\x00", 11) + "uverbs0" + strings.Repeat("\x00", 41),
		frame: `01005e0102035254009900020800450000782472400040111a9a0a630002ef010203df9412b7006400006500ffff00ff
		        ffff000000000123456700000011000000112d09f45e0500000000000000000000007576657262733000000000000000
		        000000000000000000000000000000000000000000000000000000000000000000000ee35012`,
		path: Path{Src: rdma.GID{10: 0xff, 11: 0xff, 12: 10, 13: 99, 15: 2}, Dst: group, SrcPort: 57236, DstPort: Port, ID: 0x2472, DontFragment: true},
		net:  Net{HopLimit: 64},
		head: Header{HasImm: true, PKey: 0xffff, DestQPN: 0xffffff, QKey: 0x01234567, SrcQPN: 17, Imm: [4]byte{0, 0, 0, 0x11}},
	},
}

// unhex reads bytes that stand in lines.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// build makes the frame from what stands beside it.
func (g *golden) build(t testing.TB) []byte {
	t.Helper()
	mac, ok := g.path.Dst.MulticastMAC()
	if !ok {
		t.Fatal("no MAC")
	}
	size := g.head.Size(len(g.payload))
	b := append(mac[:], unhex(t, mac1)...)
	if g.path.IsIPv4() {
		b = append(b, 0x08, 0x00)
	} else {
		b = append(b, 0x86, 0xdd)
	}
	at := len(b)
	b = append(b, bytes.Repeat([]byte{0xee}, HeaderBytes(g.path.IsIPv4())+size)...)
	at += g.path.PutIP(b[at:], &g.net, size)
	copy(g.head.Put(b[at:], len(g.payload)), g.payload)
	Seal(g.path.Prefix(size), b[at:])
	return b
}

func TestGolden(t *testing.T) {
	for _, g := range goldens {
		frame := unhex(t, g.frame)
		if g.made {
			if b := g.build(t); !bytes.Equal(b, frame) {
				t.Errorf("%s is made as\n% x, want\n% x", g.name, b, frame)
			}
		}
		var p Path
		var n Net
		b, err := p.ParseIP(frame[14:], &n)
		if err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
		p.pseudo = g.path.pseudo
		if p != g.path || n != g.net {
			t.Errorf("%s is read as %+v %+v", g.name, p, n)
		}
		var h Header
		payload, err := h.Parse(b)
		if err != nil || h != g.head || string(payload) != g.payload {
			t.Errorf("%s: %v, read as %+v %q", g.name, err, h, payload)
		}
		if sum := Sum(p.Prefix(len(b)), b); sum != g.icrc || Want(b) != g.icrc {
			t.Errorf("%s: ICRC computed %#x, read %#x, want %#x", g.name, sum, Want(b), g.icrc)
		}
	}
}

// connectX4 is a congestion notification captured from a ConnectX-4 Lx: not a
// UD packet, but with the same ICRC.
const connectX4 = `e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118
	000000000000000000000000000000000000000082fd002a`

func TestConnectX4(t *testing.T) {
	frame := unhex(t, connectX4)
	var p Path
	var n Net
	b, err := p.ParseIP(frame[14:], &n)
	if err != nil {
		t.Fatal(err)
	}
	if sum := Sum(p.Prefix(len(b)), b); sum != Want(b) || sum != 0x2a00fd82 {
		t.Errorf("ICRC %#x, want %#x", sum, Want(b))
	}
	if b[4] != 0x40 {
		t.Errorf("Sum left byte 4 as %#x", b[4])
	}
	if _, err := new(Header).Parse(b); err != ErrOpcode {
		t.Errorf("Parse: %v", err)
	}
	// As a UDP socket gets it: without identification and flags.
	p.ID, p.DontFragment = 0, true
	if id, df, ok := Recover(Sum(p.Prefix(len(b)), b), Want(b), len(b)); !ok || id != 0x718c || !df {
		t.Errorf("recovered id %#x, DF %v, %v", id, df, ok)
	}
}

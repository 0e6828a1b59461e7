package rocev2

import (
	"bytes"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2/frames"
)

// golden has the values of a frame in package frames.
type golden struct {
	name    string
	made    bool // this codec makes it bit by bit; the others were captured
	path    Path
	net     Net
	head    Header
	payload string
	icrc    uint32
}

var (
	mac1  = [6]byte{2, 5: 1}
	group = rdma.GID{10: 0xff, 11: 0xff, 12: 239, 13: 1, 14: 2, 15: 3}
	host  = rdma.GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}
)

var goldens = []golden{
	{
		name: "A", made: true, icrc: 0xce7cf284, payload: "hello",
		path: Path{Src: host, Dst: group, SrcPort: 57236, DstPort: Port, ID: 0x1234, DontFragment: true},
		net:  Net{HopLimit: 64},
		head: Header{PKey: 0xffff, DestQPN: 0xffffff, QKey: 0x01234567, SrcQPN: 17},
	},
	{
		name: "B", made: true, icrc: 0x8acc8119, payload: "\x00\x01\x02\x03\x04\x05\x06\x07",
		path: Path{Src: host, Dst: group, SrcPort: 57236, DstPort: Port, DontFragment: true},
		net:  Net{HopLimit: 64},
		head: Header{HasImm: true, PKey: 0xffff, DestQPN: 0xffffff, PSN: 1, QKey: 0x01234567, SrcQPN: 17, Imm: [4]byte{0, 0, 0, 0x11}},
	},
	{
		name: "C", made: true, icrc: 0xc7ba8663, payload: "hello",
		path: Path{Src: rdma.GID{0: 0xfe, 1: 0x80, 15: 1}, Dst: rdma.GID{0: 0xff, 1: 0x15, 14: 0x12, 15: 0x34}, SrcPort: 57236, DstPort: Port},
		net:  Net{HopLimit: 64},
		head: Header{PKey: 0xffff, DestQPN: 0xffffff, QKey: 0x01234567, SrcQPN: 17},
	},
	{
		name: "D", icrc: 0x1250e30e,
		payload: "\x2d\x09\xf4\x5e\x05" + strings.Repeat("\x00", 11) + "uverbs0" + strings.Repeat("\x00", 41),
		path:    Path{Src: rdma.GID{10: 0xff, 11: 0xff, 12: 10, 13: 99, 15: 2}, Dst: group, SrcPort: 57236, DstPort: Port, ID: 0x2472, DontFragment: true},
		net:     Net{HopLimit: 64},
		head:    Header{HasImm: true, PKey: 0xffff, DestQPN: 0xffffff, QKey: 0x01234567, SrcQPN: 17, Imm: [4]byte{0, 0, 0, 0x11}},
	},
}

// frame returns the golden frame.
func (g *golden) frame(t testing.TB) []byte {
	t.Helper()
	f := frames.Get(t, g.name)
	return f.Bytes
}

// build encodes the frame from its values.
func (g *golden) build(t testing.TB) []byte {
	t.Helper()
	mac, ok := g.path.Dst.MulticastMAC()
	if !ok {
		t.Fatal("no MAC")
	}
	size := g.head.Size(len(g.payload))
	b := append(mac[:], mac1[:]...)
	if g.path.IsIPv4() {
		b = append(b, 0x08, 0x00)
	} else {
		b = append(b, 0x86, 0xdd)
	}
	at := len(b)
	b = append(b, bytes.Repeat([]byte{0xee}, HeaderBytes(g.path.IsIPv4())+size)...)
	at += g.path.PutIP(b[at:], &g.net, size)
	copy(g.head.Put(b[at:], len(g.payload)), g.payload)
	SetICRC(g.path.Prefix(size), b[at:])
	return b
}

// docs/protocol §17.1, §17.6.
func TestGolden(t *testing.T) {
	for _, g := range goldens {
		frame := g.frame(t)
		if g.made {
			if b := g.build(t); !bytes.Equal(b, frame) {
				t.Errorf("%s is encoded as\n% x, want\n% x", g.name, b, frame)
			}
		}
		var p Path
		var n Net
		b, err := p.ParseIP(frame[14:], &n)
		if err != nil {
			t.Fatalf("%s: the IP header cannot be parsed: %v", g.name, err)
		}
		p.pseudo = g.path.pseudo
		if p != g.path || n != g.net {
			t.Errorf("%s is parsed as %+v %+v, want %+v %+v", g.name, p, n, g.path, g.net)
		}
		var h Header
		payload, err := h.Parse(b)
		if err != nil || h != g.head || string(payload) != g.payload {
			t.Errorf("%s: error %v, parsed as %+v %q, want %+v %q", g.name, err, h, payload, g.head, g.payload)
		}
		if sum := Sum(p.Prefix(len(b)), b); sum != g.icrc || Want(b) != g.icrc {
			t.Errorf("%s: ICRC computed %#x, read %#x, want %#x", g.name, sum, Want(b), g.icrc)
		}
	}
}

// TestConnectX4 checks a packet that is not a UD datagram, but has an ICRC computed in the same way.
func TestConnectX4(t *testing.T) {
	frame := frames.Get(t, "connectx4")
	var p Path
	var n Net
	b, err := p.ParseIP(frame.Packet(), &n)
	if err != nil {
		t.Fatal(err)
	}
	if sum := Sum(p.Prefix(len(b)), b); sum != Want(b) || sum != 0x2a00fd82 {
		t.Errorf("ICRC %#x, want %#x", sum, Want(b))
	}
	if b[4] != 0x40 {
		t.Errorf("Sum left byte 4 as %#x, want 0x40", b[4])
	}
	if _, err := new(Header).Parse(b); err != ErrOpcode {
		t.Errorf("Parse fails with %v, want %v", err, ErrOpcode)
	}
	// As read from a UDP socket: without identification and flags.
	p.ID, p.DontFragment = 0, true
	if id, df, ok := Recover(Sum(p.Prefix(len(b)), b), Want(b), len(b)); !ok || id != 0x718c || !df {
		t.Errorf("recovered id %#x, DF %v, %v, want 0x718c, true", id, df, ok)
	}
}

// TestCaptured checks the ICRCs of all frames, including those captured from the reliable layer: this codec decodes its
// own packets from the wire.
func TestCaptured(t *testing.T) {
	for _, frame := range frames.All(t) {
		var p Path
		b, err := p.ParseIP(frame.Packet(), new(Net))
		if err != nil {
			t.Fatalf("%s: the IP header cannot be parsed: %v", frame.Name, err)
		}
		if sum := Sum(p.Prefix(len(b)), b); sum != Want(b) {
			t.Errorf("%s: ICRC computed %#x, read %#x", frame.Name, sum, Want(b))
		}
		if want := frame.Name != "connectx4"; accepts(frame.Packet()) != want {
			t.Errorf("%s: the frame is accepted: %v, want %v", frame.Name, !want, want)
		}
	}
}

// hash/crc32, which is used on other processors, computes the same ICRCs for the frames.
func TestFramesWithoutAssembly(t *testing.T) {
	for _, frame := range frames.All(t) {
		var p Path
		b, err := p.ParseIP(frame.Packet(), new(Net))
		if err != nil {
			t.Fatal(err)
		}
		prefix := p.Prefix(len(b))
		b[4] = 0xff
		if got := crc32.Update(prefix, crc32.IEEETable, b[:len(b)-ICRCBytes]); got != Want(b) {
			t.Errorf("%s: ICRC %#x, want %#x", frame.Name, got, Want(b))
		}
	}
}

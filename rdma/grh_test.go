package rdma

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"syscall"
	"testing"
)

// The IPv4 header of golden packet A: 10.0.0.1 to 239.1.2.3, TTL 64.
func TestPutGRHIPv4(t *testing.T) {
	h := Header{Src: GIDFromIP(netip.MustParseAddr("10.0.0.1")), Dst: GIDFromIP(netip.MustParseAddr("239.1.2.3")), HopLimit: 64, PayloadLength: 40}
	area := bytes.Repeat([]byte{0xaa}, GRHBytes)
	PutGRH(area, LinkLayerEthernet, &h, 0x1234)
	want := "0000000000000000000000000000000000000000" + "4500003c1234400040112d780a000001ef010203"
	if got := hex.EncodeToString(area); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	back, ok := ParseGRH(LinkLayerEthernet, area)
	h.NextHeader = 17
	if !ok || back != h {
		t.Errorf("parsed %+v, %v, want %+v", back, ok, h)
	}
}

func TestPutGRHIB(t *testing.T) {
	h := Header{Src: GID{0: 0xfe, 1: 0x80, 15: 1}, Dst: GID{0: 0xff, 1: 0x12, 15: 2}, TrafficClass: 0x5c, FlowLabel: 0x12345, HopLimit: 7, PayloadLength: 0x20, NextHeader: NextHeaderIBA}
	var area [GRHBytes]byte
	PutGRH(area[:], LinkLayerInfiniBand, &h, 0)
	want := "65c12345" + "0020" + "1b" + "07" + "fe800000000000000000000000000001" + "ff120000000000000000000000000002"
	if got := hex.EncodeToString(area[:]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if back, ok := ParseGRH(LinkLayerInfiniBand, area[:]); !ok || back != h {
		t.Errorf("parsed %+v, %v, want %+v", back, ok, h)
	}
	// RoCE over IPv6 has the same layout and another protocol.
	PutGRH(area[:], LinkLayerEthernet, &h, 0)
	if area[6] != 17 {
		t.Errorf("next header %d, want 17", area[6])
	}
}

// The first 20 bytes before an IPv4 header are undefined, and may look like an IPv6 header: then the checksum decides.
func TestParseGRHGarbageBeforeIPv4(t *testing.T) {
	h := Header{Src: GIDFromIP(netip.MustParseAddr("10.0.0.1")), Dst: GIDFromIP(netip.MustParseAddr("239.1.2.3")), HopLimit: 64, PayloadLength: 40}
	var area [GRHBytes]byte
	PutGRH(area[:], LinkLayerEthernet, &h, 0)
	area[0] = 0x60
	if back, ok := ParseGRH(LinkLayerEthernet, area[:]); !ok || back.Src != h.Src {
		t.Errorf("parsed as IPv6: %+v, want source %v", back, h.Src)
	}
	area[30] ^= 1 // with a wrong checksum it is an IPv6 header
	if back, ok := ParseGRH(LinkLayerEthernet, area[:]); !ok || back.Src == h.Src {
		t.Errorf("parsed as IPv4: %+v, want another source than %v", back, h.Src)
	}
	area[0] = 0
	if back, ok := ParseGRH(LinkLayerEthernet, area[:]); ok {
		t.Errorf("parsed as a header: %+v, want none", back)
	}
}

func FuzzParseGRH(f *testing.F) {
	f.Add(make([]byte, GRHBytes), true)
	f.Add([]byte{0x60}, false)
	// An IPv6 header from an IPv4-mapped address.
	f.Add([]byte("a00000000\x000000000000\xff\xff0000000000000000000000000000000000")[:GRHBytes], true)
	f.Fuzz(func(t *testing.T, area []byte, ethernet bool) {
		layer := LinkLayerInfiniBand
		if ethernet {
			layer = LinkLayerEthernet
		}
		h, ok := ParseGRH(layer, area)
		if !ok {
			return
		}
		if len(area) < GRHBytes {
			t.Fatalf("header area of %d bytes, want at least %d", len(area), GRHBytes)
		}
		var again [GRHBytes]byte
		PutGRH(again[:], layer, &h, 0)
		if back, ok := ParseGRH(layer, again[:]); !ok || back.Src != h.Src || back.Dst != h.Dst || back.HopLimit != h.HopLimit {
			t.Fatalf("header %+v became %+v, %v", h, back, ok)
		}
	})
}

// docs/protocol §17.5.
func TestReplyAHAttr(t *testing.T) {
	h := Header{Src: GID{0: 0xfe, 1: 0x80, 15: 1}, Dst: GID{0: 0xff, 15: 2}, TrafficClass: 9, FlowLabel: 8, HopLimit: 1}
	var area [GRHBytes]byte
	PutGRH(area[:], LinkLayerInfiniBand, &h, 0)
	wc := WorkCompletion{Opcode: WCRecv, Flags: WCGRH, SLID: 5, SL: 3, SrcQPN: 17}
	got, err := ReplyAHAttr(Local{Port: 1, LinkLayer: LinkLayerInfiniBand, SGIDIndex: 2}, &wc, area[:])
	want := AHAttr{IsGlobal: true, Port: 1, DLID: 5, SL: 3, GRH: GRH{DGID: h.Src, SGIDIndex: 2, HopLimit: 64, TrafficClass: 9, FlowLabel: 8}}
	if err != nil || got != want {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	sent := wc
	sent.Opcode = WCSend
	bare := wc
	bare.Flags = 0
	for name, err := range map[string]error{
		"no completion": reply(nil, area[:]), "a send": reply(&sent, area[:]), "no header flag": reply(&bare, area[:]),
		"short area": reply(&wc, area[:39]), "no area": reply(&wc, nil), "zero area": reply(&wc, make([]byte, 40)),
	} {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("reply to %s: error %v, want EINVAL", name, err)
		}
	}
	if _, err := AHAttrFromWC(nil, 1, &wc, area[:]); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("without a device it fails with %v, want EINVAL", err)
	}
}

// There is no reply to an address that is not a single port's, because it would reach a group or all hosts.
// docs/protocol §17.5.
func TestReplyAHAttrToOnePortOnly(t *testing.T) {
	v4 := func(a, b, c, d byte) GID { return GID{10: 0xff, 11: 0xff, 12: a, 13: b, 14: c, 15: d} }
	var area [GRHBytes]byte
	for _, c := range []struct {
		layer LinkLayer
		src   GID
		slid  LID
		ok    bool
	}{
		{LinkLayerInfiniBand, GID{0: 0xfe, 1: 0x80, 15: 1}, 5, true},
		{LinkLayerInfiniBand, GID{0: 0xfe, 1: 0x80, 15: 1}, MLIDMin, false},
		{LinkLayerInfiniBand, GID{0: 0xfe, 1: 0x80, 15: 1}, 0xFFFF, false},
		{LinkLayerInfiniBand, GID{0: 0xff, 1: 0x12, 15: 1}, 5, false},
		{LinkLayerInfiniBand, GID{}, 5, false},
		{LinkLayerEthernet, v4(10, 0, 0, 1), 0, true},
		{LinkLayerEthernet, v4(127, 0, 0, 1), 0, true},
		{LinkLayerEthernet, v4(239, 20, 0, 0), 0, false},
		{LinkLayerEthernet, v4(224, 0, 0, 1), 0, false},
		{LinkLayerEthernet, v4(255, 255, 255, 255), 0, false},
		{LinkLayerEthernet, v4(0, 0, 0, 0), 0, false},
		{LinkLayerEthernet, GID{0: 0xfe, 1: 0x80, 15: 1}, 0, true},
		{LinkLayerEthernet, GID{0: 0xff, 1: 2, 15: 1}, 0, false},
		{LinkLayerEthernet, GID{}, 0, false},
	} {
		h := Header{Src: c.src, Dst: v4(239, 20, 0, 0)}
		PutGRH(area[:], c.layer, &h, 0)
		wc := WorkCompletion{Opcode: WCRecv, Flags: WCGRH, SLID: c.slid, SrcQPN: 17}
		_, err := ReplyAHAttr(Local{Port: 1, LinkLayer: c.layer}, &wc, area[:])
		if c.ok && err != nil || !c.ok && !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v, source %v, LID %#x: error %v, want EINVAL: %v", c.layer, c.src, uint16(c.slid), err, !c.ok)
		}
	}
}

func reply(wc *WorkCompletion, area []byte) error {
	_, err := ReplyAHAttr(Local{Port: 1, LinkLayer: LinkLayerInfiniBand}, wc, area)
	return err
}

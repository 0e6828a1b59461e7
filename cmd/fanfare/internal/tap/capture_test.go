package tap

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
)

// udp4 is an IPv4 packet with a UDP datagram.
func udp4(from, to string, payload []byte) []byte {
	src, dst := netip.MustParseAddrPort(from), netip.MustParseAddrPort(to)
	b := make([]byte, 28, 28+len(payload))
	b[0], b[8], b[9] = 0x45, 1, ipUDP
	binary.BigEndian.PutUint16(b[2:], uint16(28+len(payload)))
	copy(b[12:], src.Addr().AsSlice())
	copy(b[16:], dst.Addr().AsSlice())
	binary.BigEndian.PutUint16(b[20:], src.Port())
	binary.BigEndian.PutUint16(b[22:], dst.Port())
	binary.BigEndian.PutUint16(b[24:], uint16(8+len(payload)))
	return append(b, payload...)
}

func udp6(from, to string, payload []byte) []byte {
	src, dst := netip.MustParseAddrPort(from), netip.MustParseAddrPort(to)
	b := make([]byte, 48, 48+len(payload))
	b[0], b[6] = 0x60, ipUDP
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(payload)))
	copy(b[8:], src.Addr().AsSlice())
	copy(b[24:], dst.Addr().AsSlice())
	binary.BigEndian.PutUint16(b[40:], src.Port())
	binary.BigEndian.PutUint16(b[42:], dst.Port())
	binary.BigEndian.PutUint16(b[44:], uint16(8+len(payload)))
	return append(b, payload...)
}

func ethernet(proto uint16, packet []byte) []byte {
	return append(binary.BigEndian.AppendUint16(make([]byte, 12), proto), packet...)
}

// ud is a RoCE datagram from the BTH on.
func ud(psn byte, payload []byte) []byte {
	b := make([]byte, 20, 24+len(payload)+3)
	pad := -len(payload) & 3
	b[0], b[1], b[2], b[3] = 0x64, byte(pad)<<4, 0xff, 0xff
	b[5], b[6], b[7], b[11] = 0xff, 0xff, 0xff, psn
	copy(b[12:], []byte{1, 0x23, 0x45, 0x67, 0, 0, 0, 0x11})
	b = append(append(b, payload...), make([]byte, pad)...)
	return append(b, 1, 2, 3, 4)
}

// links add a link layer to b, an IPv4 or IPv6 packet.
var links = map[linkType]func(b []byte) []byte{
	linkEthernet: func(b []byte) []byte { return ethernet(0x0800, b) },
	linkRaw:      func(b []byte) []byte { return b },
	linkIPv4:     func(b []byte) []byte { return b },
	linkNull:     func(b []byte) []byte { return append([]byte{2, 0, 0, 0}, b...) },
	linkSLL:      func(b []byte) []byte { return append(append(make([]byte, 14), 8, 0), b...) },
	linkSLL2:     func(b []byte) []byte { return append(append([]byte{8, 0}, make([]byte, 18)...), b...) },
}

// pcap writes frames as a file.
func pcap(t testing.TB, link linkType, frames ...[]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := pcapgo.NewWriter(&out)
	err := w.WriteFileHeader(65535, layers.LinkType(link))
	for i, f := range frames {
		err = errors.Join(err, w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(int64(i), 0), CaptureLength: len(f), Length: len(f)}, f))
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func pcapng(t testing.TB, link linkType, frames ...[]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := pcapgo.NewNgWriter(&out, layers.LinkType(link))
	for i, f := range frames {
		err = errors.Join(err, w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(int64(i), 0), CaptureLength: len(f), Length: len(f)}, f))
	}
	if err := errors.Join(err, w.Flush()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var testGroups = GroupsFrom(netip.MustParseAddrPort(group0), 4)

// readAll reads a capture file to its end.
func readAll(t testing.TB, file []byte) (list []*Packet, src Source, err error) {
	t.Helper()
	src, err = OpenFile(bytes.NewReader(file), testGroups)
	if err != nil {
		return nil, nil, err
	}
	for {
		p, err := src.Next()
		if err == io.EOF {
			return list, src, nil
		}
		if err != nil {
			return list, src, err
		}
		p.Data = bytes.Clone(p.Data)
		list = append(list, p)
	}
}

// packets are those of docs/vectors, of every type.
func packets(t testing.TB) (list [][]byte) {
	t.Helper()
	var raw struct{ Packets []struct{ Hex string } }
	testenv.Vectors(t, "packets.json", &raw)
	for _, p := range raw.Packets {
		b, err := hex.DecodeString(p.Hex)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, b)
	}
	return list
}

// Packets are read from captures unchanged, for each link type and format, over UDP, RoCE and
// InfiniBand. docs/protocol §16.2, §17.1, §17.2.
func TestCapture(t *testing.T) {
	want := packets(t)
	check := func(name string, file []byte, from, to, address string) {
		t.Helper()
		got, src, err := readAll(t, file)
		if err != nil || len(got) != len(want) || len(src.Skipped()) != 0 {
			t.Errorf("%s: %d packets of %d, skipped %v: %v", name, len(got), len(want), src.Skipped(), err)
			return
		}
		for i, p := range got {
			if !bytes.Equal(p.Data, want[i]) || p.From != from || p.To != to || p.Address != address || p.Err != nil || p.Time.Unix() != int64(i) {
				t.Errorf("%s, packet %d: %v > %v (%v), %d bytes of %d, at %v: %v", name, i, p.From, p.To, p.Address, len(p.Data), len(want[i]), p.Time, p.Err)
			}
		}
	}
	all := func(f func(b []byte) []byte) (frames [][]byte) {
		for _, b := range want {
			frames = append(frames, f(b))
		}
		return frames
	}
	for link, pack := range links {
		frames := all(func(b []byte) []byte { return pack(udp4("10.0.0.7:40000", group0, b)) })
		check("pcap", pcap(t, link, frames...), "10.0.0.7:40000", group0, group0)
		check("pcapng", pcapng(t, link, frames...), "10.0.0.7:40000", group0, group0)
	}
	frames := all(func(b []byte) []byte {
		return ethernet(0x8100, ethernet(0x86dd, udp6("[fe80::1]:5", "[ff15::20:1]:7400", b))[10:])
	})
	check("IPv6 in a VLAN", pcap(t, linkEthernet, frames...), "[fe80::1]:5", "[ff15::20:1]:7400", "[ff15::20:1]:7400")
	check("unicast", pcap(t, linkRaw, all(func(b []byte) []byte { return udp4("10.0.0.8:1", "10.0.0.7:40000", b) })...), "10.0.0.8:1", "10.0.0.7:40000", "")
	frames = all(func(b []byte) []byte { return udp4("10.0.0.7:49152", "239.20.0.1:4791", ud(0, b)) })
	check("RoCE", pcap(t, linkRaw, frames...), "10.0.0.7", "ud:239.20.0.1", "ud:239.20.0.1")
	frames = all(func(b []byte) []byte {
		bth := ud(0, b)
		frame := make([]byte, 48, 50+len(bth))
		frame[1] = 3
		binary.BigEndian.PutUint16(frame[4:], uint16(48+len(bth))/4)
		copy(frame[16:], netip.MustParseAddr("fe80::2").AsSlice())
		copy(frame[32:], netip.MustParseAddr("ff12:4001:ffff::f14:1").AsSlice())
		return append(append(frame, bth...), 9, 9)
	})
	check("InfiniBand", pcap(t, linkIB, frames...), "fe80::2", "ud:239.20.0.1", "ud:239.20.0.1")
	for i, f := range frames {
		frames[i] = append([]byte{8: 21, 9: 4, 15: 0}, f...)
	}
	check("ERF", pcap(t, linkERF, frames...), "fe80::2", "ud:239.20.0.1", "ud:239.20.0.1")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(pcapng(t, linkRaw, all(func(b []byte) []byte { return udp4("10.0.0.7:40000", group0, b) })...))
	z.Close()
	check("gzip", packed.Bytes(), "10.0.0.7:40000", group0, group0)
}

// Trains of segmentation offload are split into packets.
func TestTrains(t *testing.T) {
	var train, uds []byte
	for i := range 5 {
		b := append(dataPacket(uint64(i), 0), make([]byte, 32)...) // padded
		if i == 4 {
			b = dataPacket(4, 0)
		}
		train, uds = append(train, b...), append(uds, ud(byte(i), b)...)
	}
	repairs := append(dataPacket(9, wire.FlagRepair), dataPacket(5, wire.FlagRepair)...)
	mixed := append(heartbeatPacket(9, 0, 0), dataPacket(9, 0)...)
	// A message that looks like a packet of the stream stays part of its packet.
	inner := dataPacket(8, 0)
	tunnel := make([]byte, wire.DataHeaderLen+wire.RunHeaderLen+wire.MessageHeaderLen+len(inner))
	wire.PutDataHeader(tunnel, header(3, 0), 1472)
	wire.SetSeq(tunnel, 7)
	wire.PutRun(tunnel[wire.DataHeaderLen:], 9, inner)
	for _, c := range []struct {
		name  string
		frame []byte
		seqs  []uint64 // 99: no data packet
	}{
		{"UDP", udp4("10.0.0.7:40000", group0, train), []uint64{0, 1, 2, 3, 4}},
		{"RoCE", udp4("10.0.0.7:40000", "239.20.0.1:4791", uds), []uint64{0, 1, 2, 3, 4}},
		{"repairs", udp4("10.0.0.7:40000", group0, repairs), []uint64{9, 5}},
		{"control and data", udp4("10.0.0.7:40000", group0, mixed), []uint64{99, 9}},
		{"a packet within a message", udp4("10.0.0.7:40000", group0, tunnel), []uint64{7}},
	} {
		got, _, err := readAll(t, pcap(t, linkRaw, c.frame))
		if err != nil || len(got) != len(c.seqs) {
			t.Errorf("%s: %d packets, error %v, want %d packets", c.name, len(got), err, len(c.seqs))
			continue
		}
		for i, p := range got {
			d, err := wire.ParseData(p.Data)
			if c.seqs[i] != 99 && (err != nil || d.Seq != c.seqs[i]) {
				t.Errorf("%s: packet %d has number %d, error %v, want %d", c.name, i, d.Seq, err, c.seqs[i])
			}
		}
	}
}

// Foreign datagrams count only at an address or port of the fabric; unreadable frames are counted by reason.
func TestForeignTraffic(t *testing.T) {
	text := []byte("something else altogether")
	fragment := udp4("10.0.0.7:1", group0, text)
	fragment[6] = 0x20
	cut := udp4("10.0.0.7:1", group0, text)[:30]
	tcp := udp4("10.0.0.7:1", group0, text)
	tcp[9] = 6
	got, src, err := readAll(t, pcap(t, linkRaw,
		udp4("10.0.0.7:1", "10.0.0.8:53", text), udp4("10.0.0.7:1", group0, text), udp4("10.0.0.7:1", "10.0.0.8:7400", text),
		udp4("10.0.0.7:1", "239.20.0.1:4791", text), udp4("10.0.0.7:1", "10.0.0.8:4791", text), fragment, cut, tcp, nil))
	if err != nil || len(got) != 3 {
		t.Fatalf("%d packets, error %v, want 3", len(got), err)
	}
	if got[2].Err == nil || !strings.Contains(got[2].Err.Error(), "rocev2") {
		t.Errorf("the error of a damaged RoCE datagram is %v, want one of rocev2", got[2].Err)
	}
	if s := src.Skipped(); s[errFragment.Error()] != 1 || s[errCut.Error()] != 2 || len(s) != 2 {
		t.Errorf("packets skipped %v, want 1 as %q and 2 as %q", s, errFragment, errCut)
	}
	o := NewObserver(testGroups, func(Finding) {})
	for _, p := range got {
		o.Locate(p)
		o.Observe(p)
	}
	if o.Foreign != 2 || o.Malformed != 1 {
		t.Errorf("totals %+v, want 2 foreign packets and 1 malformed", o.Totals)
	}
}

// Invalid and damaged files yield an error, and no file makes the reader allocate much memory.
func TestBadFiles(t *testing.T) {
	good := pcapng(t, linkRaw, udp4("10.0.0.7:1", group0, dataPacket(1, 0)))
	block := func(kind, length uint32, n int) []byte {
		b := binary.LittleEndian.AppendUint32(nil, kind)
		b = binary.LittleEndian.AppendUint32(b, length)
		return append(b, make([]byte, n)...)
	}
	var interfaces []byte
	for range maxInterfaces + 1 {
		interfaces = append(interfaces, binary.LittleEndian.AppendUint32(block(blockInterface, 20, 8), 20)...)
	}
	wrongLink := pcap(t, 105, nil)
	for _, c := range []struct {
		name     string
		file     []byte
		wantText string
	}{
		{"empty", nil, "too short"},
		{"text", []byte(strings.Repeat("hello, world\n", 9)), "neither pcap nor pcapng"},
		{"gzip of nothing", []byte{0x1f, 0x8b, 0}, "not a capture file"},
		{"Wi-Fi", wrongLink, "link type 105"},
		{"cut pcap", pcap(t, linkRaw, udp4("10.0.0.7:1", group0, dataPacket(1, 0)))[:60], "is truncated after 0 complete frames"},
		{"cut pcapng", good[:len(good)-9], "is truncated after 0 complete frames"},
		{"long frame", append(pcap(t, linkRaw), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0, 0, 0, 0x7f), "capture length"},
		{"long block", append(bytes.Clone(good), block(blockEnhanced, 1<<30, 20)...), "longer than any frame"},
		{"many interfaces", append(bytes.Clone(good), interfaces...), "interfaces"},
		{"odd block", append(bytes.Clone(good), block(77, 13, 20)...), "a block of 13 bytes"},
	} {
		_, _, err := readAll(t, c.file)
		if err == nil || !strings.Contains(err.Error(), c.wantText) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.wantText)
		}
	}
	// Blocks without packets are skipped, however long.
	got, _, err := readAll(t, append(append(bytes.Clone(good), binary.LittleEndian.AppendUint32(block(10, 1<<20, 1<<20-12), 1<<20)...), good...))
	if err != nil || len(got) != 2 {
		t.Errorf("%d packets, error %v, want 2", len(got), err)
	}
}

// For any file there is no panic and no endless loop, and all packets can be observed.
func FuzzCapture(f *testing.F) {
	for link, pack := range links {
		f.Add(pcap(f, link, pack(udp4("10.0.0.7:1", group0, dataPacket(1, 0)))))
		f.Add(pcapng(f, link, pack(udp4("10.0.0.7:1", "239.20.0.1:4791", ud(0, dataPacket(1, 0))))))
	}
	f.Add(pcap(f, linkIB, make([]byte, 80)))
	f.Fuzz(func(t *testing.T, file []byte) {
		list, _, _ := readAll(t, file)
		o := NewObserver(testGroups, func(Finding) {})
		for _, p := range list {
			o.Locate(p)
			o.Observe(p)
		}
		if o.Packets != uint64(len(list)) {
			t.Errorf("totals %+v, want %d packets", o.Totals, len(list))
		}
	})
}

// The tags of groups follow the rule in docs/vectors/hashes.json: docs/protocol §3.11.
func TestGroups(t *testing.T) {
	for _, a := range []string{group0, group1, "ud:239.20.0.3"} {
		g, ok := testGroups.byTag[wire.GroupTag(a)]
		at, ok2 := testGroups.byAddress[a]
		if !ok || !ok2 || g != at || g.Address != a {
			t.Errorf("%s: group by tag %v %v, by address %v %v, want the same", a, g, ok, at, ok2)
		}
	}
	if _, ok := testGroups.byAddress["239.20.0.4:7400"]; ok {
		t.Error("a fifth group exists")
	}
}

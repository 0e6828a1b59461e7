//go:build linux

package roce

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// wireTests has the tests of the statements about bytes, with check.
func wireTests(check Check) map[int]func(*testing.T) {
	with := func(f func(*testing.T, Check)) func(*testing.T) {
		return func(t *testing.T) {
			if !rawAllowed() {
				testenv.Skip(t, "sending and reading raw packets needs CAP_NET_RAW")
			}
			f(t, check)
		}
	}
	return map[int]func(*testing.T){
		111: with(wireGolden), 112: wireConnectX4, 113: with(wireFlips), 114: with(wireHeader), 115: with(wireVersion),
		116: with(wirePads), 117: with(wirePSN), 118: with(wirePeers), 119: with(wireGroups), 120: with(wireTruncated),
	}
}

// wireGroup is the group of the golden packets.
const wireGroup = "239.1.2.3"

// goldenA and goldenB are IPv4 packets computed from the rules of IBTA and of
// Linux's rxe_icrc.c; see the tests of package rocev2 for all of them.
const (
	goldenA = `45 00 00 3c 12 34 40 00 40 11 2d 78 0a 00 00 01 ef 01
	           02 03 df 94 12 b7 00 28 00 00 64 30 ff ff 00 ff
	           ff ff 00 00 00 00 01 23 45 67 00 00 00 11 68 65
	           6c 6c 6f 00 00 00 84 f2 7c ce`
	goldenB = `45 00 00 40 00 00 40 00 40 11 3f a8 0a 00 00 01 ef 01
	           02 03 df 94 12 b7 00 2c 00 00 65 00 ff ff 00 ff
	           ff ff 00 00 00 01 01 23 45 67 00 00 00 11 00 00
	           00 11 00 01 02 03 04 05 06 07 19 81 cc 8a`
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	must(t, "hex", err)
	return b
}

// injector sends complete IPv4 packets over loopback.
type injector struct {
	t  testing.TB
	fd int
}

func newInjector(t testing.TB) *injector {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	must(t, "raw socket", err)
	t.Cleanup(func() { unix.Close(fd) })
	must(t, "IP_MULTICAST_IF", unix.SetsockoptIPMreqn(fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, &unix.IPMreqn{Ifindex: 1}))
	return &injector{t, fd}
}

// send sends a packet. The kernel fills in total length and header checksum.
func (in *injector) send(packet []byte) {
	in.t.Helper()
	must(in.t, "inject", unix.Sendto(in.fd, packet, 0, &unix.SockaddrInet4{Addr: [4]byte(packet[16:20])}))
}

// sniffer reads the RoCEv2 packets on loopback with their headers.
type sniffer struct {
	t  testing.TB
	fd int
}

func newSniffer(t testing.TB) *sniffer {
	t.Helper()
	d := &device{cfg: &Config{ReceiveBuffer: 1 << 20}}
	s, err := openRaw(d)
	must(t, "raw socket", err)
	t.Cleanup(s.close)
	must(t, "filter", sys.SetFilter(s.fd, selection([]netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil, true)))
	return &sniffer{t, s.fd}
}

// packet returns the next packet.
func (s *sniffer) packet() []byte {
	s.t.Helper()
	b := make([]byte, 1<<16)
	for until := time.Now().Add(10 * time.Second); ; {
		n, _, err := unix.Recvfrom(s.fd, b, 0)
		if err == nil {
			return b[:n]
		}
		if err != unix.EAGAIN || time.Now().After(until) {
			s.t.Fatalf("no packet arrived: %v", err)
		}
		time.Sleep(50 * time.Microsecond)
	}
}

// wireNode is a receiver of the golden packets.
func wireNode(t *testing.T, check Check) (*peer, *injector) {
	p := openProvider(t, Config{Interfaces: []string{"lo"}, Check: check})
	n := newPeerAt(t, p, netip.MustParseAddr("127.0.0.1"))
	n.enter(wireGroup, rdma.JoinFullMember)
	return n, newInjector(t)
}

// build encodes a packet to wireGroup: an edited golden one with the right ICRC.
func build(payload string, edit func(p *rocev2.Path, h *rocev2.Header)) []byte {
	p := rocev2.Path{Src: rdma.GIDFromIP(netip.MustParseAddr("10.0.0.1")), Dst: rdma.GIDFromIP(netip.MustParseAddr(wireGroup)),
		SrcPort: 57236, DstPort: rocev2.Port, DontFragment: true}
	h := rocev2.Header{PKey: 0xffff, DestQPN: 0xffffff, QKey: rdma.UDPQKey, SrcQPN: 17}
	if edit != nil {
		edit(&p, &h)
	}
	size := h.Size(len(payload))
	b := make([]byte, rocev2.HeaderBytes(true)+size)
	at := p.PutIP(b, &rocev2.Net{HopLimit: 64}, size)
	copy(h.Put(b[at:], len(payload)), payload)
	rocev2.SetICRC(p.Prefix(size), b[at:])
	return b
}

func wireGolden(t *testing.T, check Check) {
	a := build("hello", func(p *rocev2.Path, h *rocev2.Header) { p.ID = 0x1234 })
	b := build("\x00\x01\x02\x03\x04\x05\x06\x07", func(p *rocev2.Path, h *rocev2.Header) { h.HasImm, h.Imm, h.PSN = true, [4]byte{3: 0x11}, 1 })
	if !bytes.Equal(a, unhex(t, goldenA)) || !bytes.Equal(b, unhex(t, goldenB)) {
		t.Errorf("encoded\n% x\n% x\nwant\n%s\n%s", a, b, goldenA, goldenB)
	}
	n, in := wireNode(t, check)
	in.send(unhex(t, goldenA))
	in.send(unhex(t, goldenB))
	got := n.wait(2)
	if got[0].data != "hello" || got[0].wc.SrcQPN != 17 || got[0].wc.Flags != rdma.WCGRH ||
		got[1].data != "\x00\x01\x02\x03\x04\x05\x06\x07" || got[1].wc.Flags != rdma.WCGRH|rdma.WCWithImm || got[1].wc.Imm != [4]byte{3: 0x11} {
		t.Errorf(`received %+v, want "hello" from QPN 17, then 8 bytes with immediate data 0x11`, got)
	}
	// The GRH area has the unchanged header.
	if want := unhex(t, goldenA)[:20]; !bytes.Equal(got[0].area[20:], want) {
		t.Errorf("header % x, want % x", got[0].area[20:], want)
	}
}

// wireConnectX4 is a congestion notification captured from a ConnectX-4 Lx.
func wireConnectX4(t *testing.T) {
	packet := unhex(t, `45c2003c718c4000401191610a0011010a001201000012b7002800008100ffff40000118
		000000000000000000000000000000000000000082fd002a`)
	var p rocev2.Path
	b, err := p.ParseIP(packet, new(rocev2.Net))
	must(t, "parse", err)
	if sum := rocev2.Sum(p.Prefix(len(b)), b); sum != rocev2.Want(b) {
		t.Errorf("ICRC %#x, want %#x", sum, rocev2.Want(b))
	}
}

func wireFlips(t *testing.T, check Check) {
	n, in := wireNode(t, check)
	packet := unhex(t, goldenB)
	masked := map[int]bool{1: true, 8: true, 10: true, 11: true, 26: true, 27: true, 32: true}
	for i := range packet {
		switch i {
		case 0, 2, 3, 6, 7, 9, 10, 11, 16, 17, 18, 19, 22, 23, 24, 25, 26, 27:
			continue // the kernel sets it, sends it elsewhere, or detects the change itself
		case 4, 5:
			if check == CheckUDP {
				continue // the UDP socket does not report it
			}
		case 12, 13, 14, 15:
			// The source: the kernel drops some addresses.
		}
		for bit := range 8 {
			packet[i] ^= 1 << bit
			if i == 8 && packet[8] == 0 || i == 12 {
				packet[i] ^= 1 << bit
				continue
			}
			in.send(packet)
			packet[i] ^= 1 << bit
			if masked[i] {
				n.wait(1)
			} else {
				n.none(fmt.Sprintf("bit %d of byte %d flipped", bit, i))
			}
		}
	}
	in.send(packet)
	n.wait(1)
	if s := n.counters(); s.ICRCErrors < 200 {
		t.Errorf("counters %+v, want 200 ICRC errors or more", s)
	}
}

// inSteps sends messages and returns their packets and the received messages.
func inSteps(t *testing.T, check Check, msgs []string, edit func(*peer)) (packets [][]byte, got []message) {
	p := openProvider(t, Config{Interfaces: []string{"lo"}, Check: check, NoGSO: true})
	n := newPeerAt(t, p, netip.MustParseAddr("127.0.0.1"))
	ah := n.enter(wireGroup, rdma.JoinFullMember)
	if edit != nil {
		edit(n)
	}
	s := newSniffer(t)
	n.send(n.wrs(ah, 0, msgs...))
	for range msgs {
		packets = append(packets, s.packet())
	}
	return packets, n.wait(len(msgs))
}

func wireHeader(t *testing.T, check Check) {
	packets, _ := inSteps(t, check, []string{"one", "two"}, nil)
	for _, b := range packets {
		if b[6]&0x40 == 0 || b[8] != 64 || !bytes.Equal(b[22:24], []byte{0x12, 0xb7}) || b[26] != 0 || b[27] != 0 ||
			b[28] != 0x64 || b[29]&0x0f != 0 || !bytes.Equal(b[32:36], []byte{0, 0xff, 0xff, 0xff}) || b[36] != 0 || b[4] != 0 || b[5] != 0 {
			t.Errorf("packet % x, want don't fragment, TTL 64, port 4791, opcode 0x64 and the multicast QPN", b)
		}
	}
}

func wireVersion(t *testing.T, check Check) {
	n, in := wireNode(t, check)
	withICRC := func(edit func(bth []byte)) []byte {
		b := unhex(t, goldenB)
		var p rocev2.Path
		u, err := p.ParseIP(b, new(rocev2.Net))
		must(t, "parse", err)
		edit(u)
		rocev2.SetICRC(p.Prefix(len(u)), u)
		return b
	}
	before := n.counters().Malformed
	bad := 0
	for v := byte(1); v < 16; v++ {
		in.send(withICRC(func(b []byte) { b[1] |= v }))
		bad++
	}
	for op := range 256 {
		if op&^1 == 0x64 {
			continue
		}
		in.send(withICRC(func(b []byte) { b[0] = byte(op) }))
		bad++
	}
	n.none("other TVer or opcode")
	in.send(withICRC(func([]byte) {}))
	n.wait(1)
	if got := n.counters().Malformed - before; got != uint64(bad) {
		t.Errorf("%d counted as malformed, want %d", got, bad)
	}
}

func wirePads(t *testing.T, check Check) {
	var msgs []string
	for i := range 9 {
		msgs = append(msgs, "abcdefgh"[:i])
	}
	packets, got := inSteps(t, check, msgs, nil)
	for i, b := range packets {
		pad := -i & 3
		tail := b[len(b)-4-pad : len(b)-4]
		if len(b) != 28+20+i+pad+4 || int(b[29]>>4&3) != pad || !bytes.Equal(tail, make([]byte, pad)) {
			t.Errorf("payload of %d bytes: packet % x, want pad %d of zeros", i, b, pad)
		}
		if got[i].data != msgs[i] || int(got[i].wc.ByteLen) != 40+i {
			t.Errorf("payload of %d bytes: received %q, byte_len %d, want %q, %d", i, got[i].data, got[i].wc.ByteLen, msgs[i], 40+i)
		}
	}
}

func wirePSN(t *testing.T, check Check) {
	packets, _ := inSteps(t, check, []string{"", "", "", ""}, func(n *peer) {
		attr, err := n.qp.Query()
		must(t, "query", err)
		must(t, "reset", n.qp.Modify(rdma.QPAttr{State: rdma.QPReset}, rdma.QPMaskState))
		attr.State = rdma.QPInit
		must(t, "init", n.qp.Modify(attr, rdma.QPMaskState|rdma.QPMaskPKeyIndex|rdma.QPMaskPort|rdma.QPMaskQKey))
		must(t, "RTR", n.qp.Modify(rdma.QPAttr{State: rdma.QPRTR}, rdma.QPMaskState))
		must(t, "RTS", n.qp.Modify(rdma.QPAttr{State: rdma.QPRTS, SQPSN: 0xfffffe}, rdma.QPMaskState|rdma.QPMaskSQPSN))
		n.post(peerSlots) // RESET discards the receives
	})
	for i, b := range packets {
		want := [...]string{"fffffe", "ffffff", "000000", "000001"}[i]
		if got := hex.EncodeToString(b[37:40]); got != want {
			t.Errorf("PSN of packet %d is %s, want %s", i, got, want)
		}
	}
}

func wirePeers(t *testing.T, check Check) {
	n, in := wireNode(t, check)
	count := 0
	for _, id := range []uint16{5, 63, 65, 0x1234, 0xffff} {
		for _, df := range []bool{true, false} {
			for pad := range 4 {
				text := "payload"[:7-pad]
				in.send(build(text, func(p *rocev2.Path, h *rocev2.Header) {
					p.ID, p.DontFragment, h.MigReq = id, df, pad%2 == 0
				}))
				if got := n.wait(1); got[0].data != text {
					t.Errorf("id %#x DF %v pad %d: received %q, want %q", id, df, pad, got[0].data, text)
				}
				count++
			}
		}
	}
	s := n.counters()
	if check == CheckUDP && int(s.Recovered) != count || check == CheckFull && s.Recovered != 0 || int(s.Received) != count {
		t.Errorf("counters %+v, want %d received, all recovered with UDP checksums and none with ICRCs", s, count)
	}
}

func wireGroups(t *testing.T, check Check) {
	n, in := wireNode(t, check)
	other := newPeerAt(t, n.p, netip.MustParseAddr("127.0.0.1")) // a member of the second group, so that packets to it reach the port
	other.enter("239.129.2.3", rdma.JoinFullMember)
	for i, group := range []string{"239.129.2.3", "239.1.2.4"} {
		in.send(build("elsewhere", func(p *rocev2.Path, h *rocev2.Header) { p.Dst = rdma.GIDFromIP(netip.MustParseAddr(group)) }))
		n.none(group)
		if i == 0 {
			other.wait(1)
		}
	}
	in.send(build("here", nil))
	n.wait(1)
	other.none("the first group")
}

func wireTruncated(t *testing.T, check Check) {
	n, in := wireNode(t, check)
	packet := unhex(t, goldenB)
	for size := 28; size < len(packet); size++ {
		b := bytes.Clone(packet[:size])
		b[24], b[25] = 0, byte(size-20) // so that the kernel accepts it
		in.send(b)
	}
	n.none("truncated")
	in.send(packet)
	n.wait(1)
	if s := n.counters(); s.Malformed+s.ICRCErrors != uint64(len(packet)-28) {
		t.Errorf("counters %+v, want %d malformed or with ICRC errors", s, len(packet)-28)
	}
}

// relayFrame returns the message with which another process relays the datagram in packet to a queue pair of this host.
func relayFrame(t testing.TB, packet []byte, ip netip.Addr, qpn rdma.QPN) []byte {
	t.Helper()
	var p rocev2.Path
	u, err := p.ParseIP(packet, new(rocev2.Net))
	must(t, "parse", err)
	var h rocev2.Header
	payload, err := h.Parse(u)
	must(t, "parse", err)
	h.DestQPN, p.Dst = qpn, rdma.GIDFromIP(ip)
	b := make([]byte, relayHeaderBytes+len(u))
	b[0], b[2] = relayVersion, 64
	b[4], b[5] = byte(p.SrcPort>>8), byte(p.SrcPort)
	copy(b[8:], p.Src[:])
	copy(b[24:], p.Dst[:])
	copy(h.Put(b[relayHeaderBytes:], len(payload)), payload)
	rocev2.SetICRC(p.Prefix(len(u)), b[relayHeaderBytes:])
	return b
}

// accepted reports whether an IP packet is a RoCEv2 datagram with the right ICRC.
func accepted(packet []byte) bool {
	var p rocev2.Path
	u, err := p.ParseIP(packet, new(rocev2.Net))
	if err != nil {
		return false
	}
	_, err = new(rocev2.Header).Parse(u)
	return err == nil && rocev2.Sum(p.Prefix(len(u)), u) == rocev2.Want(u)
}

package lab

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"testing"
)

// Packet is an IPv4 packet that a NIC sent or received.
type Packet struct {
	Src, Dst netip.Addr
	Protocol uint8  // protocol number of IANA
	Header   []byte // the IP header
	Payload  []byte // the rest
}

// Protocol numbers used by tests.
const (
	protoIGMP = 2
	protoUDP  = 17
)

// Packets returns the IPv4 packets at the first NIC of a VM, in order. All VMs share a segment:
// these are the packets of all VMs and of the host, unless the bridge snoops.
func (r *Result) Packets(t testing.TB, vm int) []Packet {
	t.Helper()
	file, err := os.ReadFile(r.captureFile(vm))
	if err != nil {
		t.Fatal(err)
	}
	packets, err := parseCapture(file)
	if err != nil {
		t.Fatalf("the capture of VM %d cannot be read: %v", vm, err)
	}
	return packets
}

func (r *Result) captureFile(vm int) string { return fmt.Sprintf("%s.vm%d.nic0.pcap", r.captures, vm) }

// parseCapture parses a capture file of Ethernet frames as written by qemu's filter-dump: the classic format in this
// machine's byte order, with microseconds. Packets other than IPv4 are skipped, and so is an incomplete last frame.
func parseCapture(b []byte) ([]Packet, error) {
	const header, record, ethernet = 24, 16, 14
	if len(b) < header || binary.LittleEndian.Uint32(b) != 0xa1b2c3d4 || binary.LittleEndian.Uint32(b[20:]) != 1 {
		return nil, fmt.Errorf("not a capture file of Ethernet frames")
	}
	var list []Packet
	for b = b[header:]; len(b) >= record; {
		n := int(binary.LittleEndian.Uint32(b[8:]))
		if len(b)-record < n {
			break
		}
		frame := b[record : record+n]
		b = b[record+n:]
		if n < ethernet+20 || binary.BigEndian.Uint16(frame[12:]) != 0x0800 {
			continue
		}
		ip := frame[ethernet:]
		hlen, total := int(ip[0]&15)*4, int(binary.BigEndian.Uint16(ip[2:]))
		if hlen < 20 || total < hlen || total > len(ip) {
			return nil, fmt.Errorf("damaged IPv4 header % x", ip[:20])
		}
		list = append(list, Packet{netip.AddrFrom4([4]byte(ip[12:])), netip.AddrFrom4([4]byte(ip[16:])), ip[9], ip[:hlen], ip[hlen:total]})
	}
	return list, nil
}

// IGMPReports counts the packets in which a host reports membership of the group: reports of
// version 2 (RFC 2236), and records of version 3 (RFC 3376) other than leaves.
func IGMPReports(packets []Packet, from, group string) (n int) {
	src, g := netip.MustParseAddr(from), netip.MustParseAddr(group).As4()
	for _, p := range packets {
		if p.Protocol != protoIGMP || p.Src != src || len(p.Payload) < 8 {
			continue
		}
		switch b := p.Payload; b[0] {
		case 0x16: // version 2 report
			if [4]byte(b[4:8]) == g {
				n++
			}
		case 0x22: // version 3 report
			records := int(binary.BigEndian.Uint16(b[6:]))
			for b = b[8:]; records > 0 && len(b) >= 8; records-- {
				const modeIsInclude, changeToInclude = 1, 3
				sources := int(binary.BigEndian.Uint16(b[2:]))
				if [4]byte(b[4:8]) == g && !((b[0] == modeIsInclude || b[0] == changeToInclude) && sources == 0) {
					n++
				}
				b = b[min(len(b), 8+4*sources+4*int(b[1])):]
			}
		}
	}
	return n
}

// Datagram is the part of a RoCEv2 Unreliable Datagram that tests check.
type Datagram struct {
	Dst     netip.Addr
	IPID    uint16 // identification of the IP header
	Opcode  uint8
	DestQPN uint32
	QKey    uint32
	SrcQPN  uint32
	PSN     uint32
	Imm     uint32 // 0: none
	Data    []byte
	ICRC    bool // it is correct
	// Constant is BTH and DETH, with zeros in the fields that differ between datagrams or queue pairs:
	// pad count, PSN, source QPN.
	Constant [20]byte
}

// Datagrams returns the RoCEv2 datagrams from one address to another; "" is any address.
func Datagrams(packets []Packet, from, to string) (list []Datagram) {
	const roce, bth, deth, icrc = 4791, 12, 8, 4
	for _, p := range packets {
		if p.Protocol != protoUDP || from != "" && p.Src.String() != from || to != "" && p.Dst.String() != to ||
			len(p.Payload) < 8+bth+deth+icrc || binary.BigEndian.Uint16(p.Payload[2:]) != roce {
			continue
		}
		b := p.Payload[8:]
		pad := int(b[1] >> 4 & 3)
		d := Datagram{
			Dst: p.Dst, IPID: binary.BigEndian.Uint16(p.Header[4:]), Constant: [20]byte(b),
			Opcode: b[0], DestQPN: be24(b[5:]), QKey: binary.BigEndian.Uint32(b[bth:]), SrcQPN: be24(b[bth+5:]), PSN: be24(b[9:]), ICRC: rightICRC(&p),
		}
		d.Constant[1] &^= 0x30
		clear(d.Constant[9:12])
		clear(d.Constant[17:20])
		b = b[bth+deth : len(b)-icrc]
		if d.Opcode == 0x65 && len(b) >= 4 {
			d.Imm, b = binary.BigEndian.Uint32(b), b[4:]
		}
		d.Data = b[:max(0, len(b)-pad)]
		list = append(list, d)
	}
	return list
}

// MulticastOnly returns the datagrams to groups.
func MulticastOnly(list []Datagram) []Datagram {
	return slices.DeleteFunc(slices.Clone(list), func(d Datagram) bool { return !d.Dst.IsMulticast() })
}

// Sequence checks the packet sequence numbers of each sending queue pair, which increase by one:
// how many are missing between the first and the last one, and how many arrived after a later one.
func Sequence(list []Datagram) (lost, reordered int) {
	type numbers struct {
		seen        map[int]bool
		first, last int // unwrapped
	}
	qps := map[uint32]*numbers{}
	for _, d := range list {
		q := qps[d.SrcQPN]
		if q == nil {
			n := int(d.PSN)
			q = &numbers{seen: map[int]bool{}, first: n, last: n}
			qps[d.SrcQPN] = q
		}
		ahead := int(int32((d.PSN-uint32(q.last))<<8) >> 8) // signed difference of 24-bit numbers
		n := q.last + ahead
		if ahead < 0 {
			reordered++
		}
		q.seen[n] = true
		q.first, q.last = min(q.first, n), max(q.last, n)
	}
	for _, q := range qps {
		lost += q.last - q.first + 1 - len(q.seen)
	}
	return lost, reordered
}

func rightICRC(p *Packet) bool {
	return icrc(p) == binary.LittleEndian.Uint32(p.Payload[len(p.Payload)-4:])
}

// icrc computes the invariant CRC of a RoCEv2 packet (IBTA annex A17): fields that may change in
// transit count as ones, and so do eight preceding bytes, which replace a local route header.
func icrc(p *Packet) uint32 {
	b := append(bytes.Repeat([]byte{0xff}, 8), p.Header...)
	b = append(b, p.Payload...)
	ip := b[8:]
	udp := ip[len(p.Header):]
	for _, masked := range []*byte{&ip[1], &ip[8], &ip[10], &ip[11], &udp[6], &udp[7], &udp[8+4]} {
		*masked = 0xff // TOS, TTL, checksums; FECN and BECN
	}
	return crc32.ChecksumIEEE(b[:len(b)-4])
}

func be24(b []byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }

// Tshark runs Wireshark's dissectors over the capture of a VM's first NIC and returns their output.
func (r *Result) Tshark(t testing.TB, vm int, args ...string) string {
	t.Helper()
	return tshark(t, r.captureFile(vm), args...)
}

func tshark(t testing.TB, file string, args ...string) string {
	t.Helper()
	cmd := exec.Command("tshark", append([]string{"-r", file}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // without the user's preferences
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("tshark %v failed: %v", args, err)
	}
	return string(out)
}

//go:build linux

package roce

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2/frames"
)

// mutate damages a copy of b in dst: some bits, some bytes, its length, or everything. Usually the first head bytes
// stay unchanged.
func mutate(r *rand.Rand, dst, b []byte, head int) []byte {
	dst = append(dst[:0], b...)
	if r.IntN(8) == 0 {
		head = 0
	}
	for again := true; again; again = r.IntN(3) == 0 {
		head = min(head, len(dst))
		n := len(dst) - head
		switch {
		case n == 0:
			return dst
		case r.IntN(64) == 0: // everything is replaced
			dst = dst[:head]
			for range r.IntN(128) {
				dst = append(dst, byte(r.Uint32()))
			}
		default:
			switch r.IntN(16) {
			case 0:
				dst = dst[:head+r.IntN(n+1)]
			case 1, 2: // a whole number of words
				dst = dst[:head+r.IntN(n+1)&^3]
			case 3, 4:
				for range 4 * (1 + r.IntN(4)) {
					dst = append(dst, byte(r.Uint32()))
				}
			case 5, 6:
				dst[head+r.IntN(n)] = byte(r.Uint32())
			case 7, 8: // a burst
				at := r.IntN(n)
				for i := at; i < min(n, at+1+r.IntN(8)); i++ {
					dst[head+i] = byte(r.Uint32())
				}
			case 9: // only the ICRC
				for i := max(0, n-4); i < n; i++ {
					dst[head+i] = byte(r.Uint32())
				}
			default:
				for range 1 + r.IntN(4) {
					dst[head+r.IntN(n)] ^= 1 << r.IntN(8)
				}
			}
		}
	}
	return dst
}

// sample is an undamaged packet that a test's queue pair accepts, and the message to deliver.
type sample struct {
	name        string
	packet      []byte // in the form of the input path
	path        rocev2.Path
	net         rocev2.Net
	head        rocev2.Header
	payload     []byte
	isDatagram  bool // it is a UD datagram
	checksummed bool // with the reliable layer's CRC-32C
}

// grow makes s a longer sample, with up to 63 more words of payload and the right checksums.
func (s *sample) grow(w *mutationPath, r *rand.Rand, from *sample) {
	payload, packet := s.payload[:0], s.packet[:0]
	*s = *from
	payload = append(payload, from.payload...)
	for range r.IntN(64) {
		payload = binary.LittleEndian.AppendUint32(payload, r.Uint32())
	}
	if s.checksummed {
		wire.SetChecksum(payload)
	}
	size := s.head.Size(len(payload))
	packet = append(packet, make([]byte, w.head+size)...)
	if w.wrap {
		copy(packet, from.packet[:w.head])
	} else {
		s.path.PutIP(packet, &s.net, size)
	}
	copy(s.head.Put(packet[w.head:], len(payload)), payload)
	rocev2.SetICRC(s.path.Prefix(size), packet[w.head:])
	s.payload, s.packet = payload, packet
}

// mutationPath is an input path for packets.
type mutationPath struct {
	name string
	ip   netip.Addr
	full bool // CheckFull
	weak bool // the ICRC check has only 15 bits
	// wrap: packets are not IP packets, but relayed ones.
	wrap bool
	// head is the number of bytes before the BTH.
	head int
	// seen has the bytes before the BTH that matter: others are invisible, or not covered by the ICRC.
	seen []int
	// give passes one message to the device, as the kernel would.
	give func(d *device, s *sample, b []byte)
	// copies is the number of copies of a sample in a message, which form a train.
	copies int
	// random: in addition to the damage by mutate, the ICRC of each damaged datagram is replaced by a random number.
	random bool
	// share is the number of mutations compared to those of other paths.
	share int
}

var (
	mutationV4, mutationV6 = netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")
	// IPv4: all except type of service, time to live and the checksums.
	seenIPv4 = []int{0, 2, 3, 4, 5, 6, 7, 9, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25}
	// A UDP socket reports only source address and port.
	seenUDP4 = []int{12, 13, 14, 15, 20, 21}
	seenUDP6 = []int{8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 40, 41}
)

func mutationPaths() []mutationPath {
	v4 := func(copies int) func(d *device, s *sample, b []byte) {
		return func(d *device, s *sample, b []byte) {
			src := rdma.GID{10: 0xff, 11: 0xff}
			copy(src[12:], b[12:16])
			k := groupSocket
			if !s.path.Dst.IsMulticast() {
				k = unicastSocket
			}
			segment := max(1, len(b)-28)
			if copies > 1 {
				segment = len(s.packet) - 28
			}
			d.rx.in.train(&socket{kind: k, ipv4: true, dst: s.path.Dst}, b[28:], segment, src, binary.BigEndian.Uint16(b[20:]), &netFields{0, 64})
		}
	}
	return []mutationPath{
		{name: "IPv4, UDP socket", ip: mutationV4, weak: true, head: 28, seen: seenUDP4, give: v4(1)},
		{name: "IPv4, UDP socket, random", ip: mutationV4, weak: true, head: 28, seen: seenUDP4, give: v4(1), random: true},
		{name: "IPv4, UDP socket, trains", ip: mutationV4, weak: true, head: 28, seen: seenUDP4, give: v4(3), random: true, copies: 3, share: 4},
		{name: "IPv4, raw socket", ip: mutationV4, full: true, head: 28, seen: seenIPv4,
			give: func(d *device, s *sample, b []byte) { d.rx.in.rawPacket(b, d.link.index) }},
		{name: "IPv6, UDP socket", ip: mutationV6, head: 48, seen: seenUDP6,
			give: func(d *device, s *sample, b []byte) {
				k := groupSocket
				if !s.path.Dst.IsMulticast() {
					k = unicastSocket
				}
				d.rx.in.train(&socket{kind: k, dst: s.path.Dst}, b[48:], max(1, len(b)-48), rdma.GID(b[8:24]), binary.BigEndian.Uint16(b[40:]), &netFields{0, 64})
			}},
		{name: "IPv6, relay", ip: mutationV6, head: relayHeaderBytes, share: 4,
			wrap: true,
			seen: []int{0, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39},
			give: func(d *device, s *sample, b []byte) {
				for _, q := range d.senders {
					d.relayed(q.lease, b, true)
				}
			}},
	}
}

// samples returns all frames as packets that a queue pair accepts: unchanged if it can be a member of their group,
// otherwise addressed to the queue pair.
func (w *mutationPath) samples(t testing.TB, n *peer) (list []sample) {
	t.Helper()
	joined := map[rdma.GID]bool{}
	for _, f := range frames.All(t) {
		s := sample{name: f.Name, packet: bytes.Clone(f.Packet())}
		b, err := s.path.ParseIP(s.packet, &s.net)
		must(t, f.Name, err)
		s.payload, err = s.head.Parse(b)
		s.isDatagram = err == nil
		s.checksummed = len(s.payload) >= wire.HeaderLen && wire.Verify(s.payload, true) == nil
		p := &s.path
		switch other := p.IsIPv4() != w.ip.Is4(); {
		case other || w.wrap || !p.Dst.IsMulticast():
			if other && w.ip.Is4() {
				p.Src, p.DontFragment = rdma.GIDFromIP(netip.MustParseAddr("10.0.0.7")), true
			} else if other {
				p.Src = rdma.GIDFromIP(netip.MustParseAddr("fe80::7"))
			}
			p.Dst = rdma.GIDFromIP(w.ip)
			if b = bytes.Clone(b); s.isDatagram {
				s.head.DestQPN = n.qp.QPN()
				binary.BigEndian.PutUint32(b[4:], uint32(s.head.DestQPN))
			}
			rocev2.SetICRC(p.Prefix(len(b)), b)
			s.packet = make([]byte, w.head+len(b))
			if !w.wrap {
				p.PutIP(s.packet, &s.net, len(b))
			} else {
				s.packet[0], s.packet[2] = relayVersion, 64
				binary.BigEndian.PutUint16(s.packet[4:], p.SrcPort)
				copy(s.packet[8:], p.Src[:])
				copy(s.packet[24:], p.Dst[:])
			}
			copy(s.packet[w.head:], b)
		case !joined[p.Dst]:
			joined[p.Dst] = true
			if p.IsIPv4() {
				n.enter(p.Dst.IP().String(), rdma.JoinFullMember)
				break
			}
			dst := p.Dst
			must(t, "attach", n.qp.AttachMcast(dst, 0))
			t.Cleanup(func() { must(t, "detach", n.qp.DetachMcast(dst, 0)) })
		}
		s.payload = bytes.Clone(s.payload)
		list = append(list, s)
	}
	return list
}

// open makes a queue pair that receives packets on this path.
func (w *mutationPath) open(t testing.TB) (*peer, *device) {
	t.Helper()
	check := CheckUDP
	if w.full {
		if !rawAllowed() {
			testenv.Skip(t, "CAP_NET_RAW is missing: run as root")
		}
		check = CheckFull
	}
	n := newPeer(t, openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{w.ip}, Check: check}))
	return n, n.p.devices[0]
}

// parts returns the datagrams of a message.
func (w *mutationPath) parts(s *sample, b []byte) (list [][]byte) {
	body, good := b[w.head:], len(s.packet)-w.head
	if w.copies <= 1 {
		if w.full { // bytes after the IP packet's end do not belong to it
			body = body[:min(good, len(body))]
		}
		return append(list, body)
	}
	for len(body) > good {
		list, body = append(list, body[:good]), body[good:]
	}
	return append(list, body)
}

// pass is the outcome for one message.
type pass struct {
	intact, received, delivered, segments int
	messages                              []message
}

// deliver passes a message to the device and returns the outcome.
func (w *mutationPath) deliver(t testing.TB, n *peer, d *device, s *sample, b []byte) (p pass) {
	t.Helper()
	p.segments = 1
	if len(b) < w.head { // the kernel delivers such packets only to raw sockets and relays
		if !w.full && !w.wrap {
			return pass{}
		}
	} else {
		good, same := s.packet[w.head:], true
		for _, i := range w.seen {
			same = same && b[i] == s.packet[i]
		}
		parts := w.parts(s, b)
		p.segments = len(parts)
		for _, part := range parts {
			if same && intact(part, good) {
				p.intact++
			}
		}
	}
	before := accounted(d)
	d.rxMu.Lock()
	if d.rx.mem == nil {
		must(t, "receive memory", d.rx.open(d))
	}
	w.give(d, s, b)
	p.received = int(d.rx.in.received)
	p.delivered = d.rx.in.flush()
	d.rxMu.Unlock()
	if got := accounted(d) - before; got != uint64(p.segments) {
		t.Fatalf("%s: %d datagrams are counted %d times: % x, %s", s.name, p.segments, got, b, n.stats())
	}
	if p.delivered > 0 {
		p.messages = n.poll()
	}
	if len(p.messages) != p.delivered {
		t.Fatalf("%s: %d messages, want %d", s.name, len(p.messages), p.delivered)
	}
	return p
}

// intact reports whether two datagrams are equal in everything that the ICRC covers.
func intact(a, b []byte) bool {
	return len(a) == len(b) && bytes.Equal(a[:4], b[:4]) && bytes.Equal(a[5:], b[5:])
}

// accounted returns the number of datagrams that a device has counted.
func accounted(d *device) uint64 {
	c := &d.count
	return c.received.Load() + c.malformed.Load() + c.icrcErrors.Load() + c.foreign.Load() + c.relayRefused.Load()
}

// dropped returns the number of datagrams that were delivered to no queue pair.
func dropped(t testing.TB, n *peer) uint64 {
	t.Helper()
	port, err := n.dev.Port(1)
	must(t, "port", err)
	return port.Dropped
}

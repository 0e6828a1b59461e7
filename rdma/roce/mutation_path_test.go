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

// mutate damages a copy of b, in dst: some bits, some bytes, its length, or all
// of it. Mostly the first head bytes stay as they are.
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
		case r.IntN(64) == 0: // nothing of it is left
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
			case 9: // the ICRC alone
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

// sample is an undamaged packet that the queue pair of a test takes, and what
// it is to deliver.
type sample struct {
	name        string
	packet      []byte // as the way takes it
	path        rocev2.Path
	net         rocev2.Net
	head        rocev2.Header
	payload     []byte
	takes       bool // it is a UD datagram
	checksummed bool // with the reliable layer's CRC-32C
}

// grow makes s a longer sample: with up to 63 more words of payload, and again
// the right checksums.
func (s *sample) grow(w *mutationWay, r *rand.Rand, from *sample) {
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

// mutationWay is one of the ways by which packets come.
type mutationWay struct {
	name string
	ip   netip.Addr
	full bool // CheckFull
	weak bool // the ICRC check is one of 15 bits
	// wrap says that it is not IP packets that come, but what a relay makes of
	// them.
	wrap bool
	// head is how many bytes come before the BTH.
	head int
	// seen are the bytes before the BTH that count: others are not seen, or not
	// covered by the ICRC.
	seen []int
	// give gives one message, as the kernel would, to the device.
	give func(d *device, s *sample, b []byte)
	// copies is how many times a sample is in a message: they make a train.
	copies int
	// random says that the damage is not only what mutate makes: the ICRC of
	// each damaged datagram becomes a random number.
	random bool
	// share is how many mutations are tried for one of the others.
	share int
}

var (
	mutationV4, mutationV6 = netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")
	// Of IPv4: all but type of service, time to live, and the checksums.
	seenIPv4 = []int{0, 2, 3, 4, 5, 6, 7, 9, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25}
	// A UDP socket reports source address and port only.
	seenUDP4 = []int{12, 13, 14, 15, 20, 21}
	seenUDP6 = []int{8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 40, 41}
)

func mutationWays() []mutationWay {
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
	return []mutationWay{
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

// samples are all frames, as packets that a queue pair takes: as they are where
// it can be a member of their group, else addressed to the queue pair.
func (w *mutationWay) samples(t testing.TB, n *peer) (list []sample) {
	t.Helper()
	joined := map[rdma.GID]bool{}
	for _, f := range frames.All(t) {
		s := sample{name: f.Name, packet: bytes.Clone(f.Packet())}
		b, err := s.path.ParseIP(s.packet, &s.net)
		must(t, f.Name, err)
		s.payload, err = s.head.Parse(b)
		s.takes = err == nil
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
			if b = bytes.Clone(b); s.takes {
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

// open makes a queue pair that packets come to in this way.
func (w *mutationWay) open(t testing.TB) (*peer, *device) {
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

// parts are the datagrams of a message.
func (w *mutationWay) parts(s *sample, b []byte) (list [][]byte) {
	body, good := b[w.head:], len(s.packet)-w.head
	if w.copies <= 1 {
		if w.full { // what is behind the IP packet's end is no part of it
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

// take gives a message to the device and returns the outcome.
func (w *mutationWay) take(t testing.TB, n *peer, d *device, s *sample, b []byte) (p pass) {
	t.Helper()
	p.segments = 1
	if len(b) < w.head { // the kernel would not have brought it, but for raw sockets and relays
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
		t.Fatalf("%s: %d messages of %d", s.name, len(p.messages), p.delivered)
	}
	return p
}

// intact reports whether two datagrams are the same, but for what the ICRC leaves
// out.
func intact(a, b []byte) bool {
	return len(a) == len(b) && bytes.Equal(a[:4], b[:4]) && bytes.Equal(a[5:], b[5:])
}

// accounted is how many datagrams a device has counted: each once.
func accounted(d *device) uint64 {
	c := &d.count
	return c.received.Load() + c.malformed.Load() + c.icrcErrors.Load() + c.foreign.Load() + c.relayRefused.Load()
}

// dropped is how many datagrams no queue pair has taken.
func dropped(t testing.TB, n *peer) uint64 {
	t.Helper()
	port, err := n.dev.Port(1)
	must(t, "port", err)
	return port.Dropped
}

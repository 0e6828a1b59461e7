//go:build linux

package roce

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2/frames"
)

var (
	mutations = flag.Int("roce.mutations", 50_000, "damaged packets for each way in")
	seed      = flag.Uint64("roce.seed", 1, "seed of the mutations; 0 takes another one each time")
)

// mutationCount is how many mutations to try: fewer in a short run.
func mutationCount() int {
	if testing.Short() {
		return min(*mutations, 5000)
	}
	return *mutations
}

func mutationRand(t *testing.T, stream uint64) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-roce.seed=%d repeats this", s)
	return rand.New(rand.NewPCG(s, stream))
}

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
	name    string
	packet  []byte // as the way takes it
	path    rocev2.Path
	net     rocev2.Net
	head    rocev2.Header
	payload []byte
	takes   bool // it is a UD datagram
	sealed  bool // with the reliable layer's CRC-32C
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
	if s.sealed {
		wire.Seal(payload)
	}
	size := s.head.Size(len(payload))
	packet = append(packet, make([]byte, w.head+size)...)
	if w.wrap {
		copy(packet, from.packet[:w.head])
	} else {
		s.path.PutIP(packet, &s.net, size)
	}
	copy(s.head.Put(packet[w.head:], len(payload)), payload)
	rocev2.Seal(s.path.Prefix(size), packet[w.head:])
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
	// A UDP socket tells source address and port only.
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
		s.sealed = len(s.payload) >= wire.HeaderLen && wire.Verify(s.payload, true) == nil
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
			rocev2.Seal(p.Prefix(len(b)), b)
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

// pass is what became of one message.
type pass struct {
	intact, received, delivered, segments int
	messages                              []message
}

// take gives a message to the device and reports what became of it.
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

// TestMutations gives a receiving queue pair damaged packets in each of the ways
// by which packets come, after the kernel: computed, captured and reliable
// packets with damage of all kinds. Nothing may panic; each packet is counted once;
// those whose damage is outside of what the ICRC covers are delivered as if they had
// none; of the others none is, but for the 2^-15 that CheckUDP lets pass on IPv4:
// and of the reliable layer's packets among those none passes its CRC-32C.
func TestMutations(t *testing.T) {
	for i, way := range mutationWays() {
		t.Run(way.name, func(t *testing.T) {
			r := mutationRand(t, uint64(i))
			n, d := way.open(t)
			samples := way.samples(t, n)
			deliver := func(s *sample, p pass) (strange []message) {
				for _, m := range p.messages {
					if m.data == string(s.payload) && p.intact > 0 {
						p.intact--
						continue
					}
					strange = append(strange, m)
				}
				if p.intact > 0 && s.takes {
					t.Fatalf("%s: %d undamaged datagrams are not delivered: %s", s.name, p.intact, n.stats())
				}
				return strange
			}
			for i := range samples {
				s := &samples[i]
				if got := way.take(t, n, d, s, bytes.Clone(s.packet)); s.takes != (got.delivered == 1) || len(deliver(s, got)) > 0 {
					t.Fatalf("undamaged %s: %+v %s", s.name, got, n.stats())
				}
			}
			start, lost := n.counters(), dropped(t, n)
			var b, whole []byte
			var grown sample
			var checked, damaged, passed, repeated, delivered, refused, taken int
			patterns := map[string]bool{}
			for range mutationCount() / max(1, way.share) {
				s := &samples[r.IntN(len(samples))]
				if s.takes && r.IntN(4) != 0 {
					grown.grow(&way, r, s)
					s = &grown
				}
				whole = append(whole[:0], s.packet...)
				for range way.copies - 1 {
					whole = append(whole, s.packet[way.head:]...)
				}
				b = mutate(r, b, whole, way.head)
				if way.full && len(b) >= way.head && r.IntN(8) != 0 { // as long as it says
					binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
					binary.BigEndian.PutUint16(b[24:], uint16(len(b)-20))
				}
				if way.random && len(b) >= way.head {
					for _, part := range way.parts(s, b) {
						if n := len(part) - rocev2.ICRCBytes; n >= 0 && !intact(part, s.packet[way.head:]) {
							binary.LittleEndian.PutUint32(part[n:], r.Uint32())
						}
					}
				}
				failed := d.count.icrcErrors.Load()
				p := way.take(t, n, d, s, b)
				taken += p.delivered
				damaged += p.segments - p.intact
				wrong := p.received - p.intact
				if !s.takes {
					wrong = p.received
				}
				if wrong > 0 && !way.random && len(b) == len(whole) {
					if pattern := difference(whole, b); patterns[pattern] {
						repeated += wrong
					} else {
						patterns[pattern] = true
					}
				}
				passed += wrong
				checked += wrong + int(d.count.icrcErrors.Load()-failed)
				for _, m := range deliver(s, p) {
					delivered++
					if !way.weak {
						t.Errorf("damaged %s is delivered as %q", s.name, m.data)
					}
					switch {
					case !s.sealed || m.data == string(s.payload): // damage before the payload
					case len(m.data) < wire.HeaderLen || wire.Verify([]byte(m.data), true) != nil:
						refused++
					case !sameButFlags(m.data, string(s.payload)): // which are not covered (docs/protocol.md)
						t.Errorf("damaged %s is delivered as %q, and has the right CRC-32C", s.name, m.data)
					}
				}
			}
			c, lost2 := n.counters(), dropped(t, n)
			t.Logf("%d damaged datagrams, %d came to the ICRC check, %d passed it (%d of which had the same bits flipped in the same places as one before), %d of them were delivered, %d of these the reliable layer refuses by its CRC-32C; %d malformed, %d with a wrong ICRC, %d foreign, %d refused, %d taken",
				damaged, checked, passed, repeated, delivered, refused, c.Malformed-start.Malformed, c.ICRCErrors-start.ICRCErrors, c.Foreign-start.Foreign, c.RelayRefused-start.RelayRefused, taken)
			if got := c.Received - start.Received; got != uint64(taken)+lost2-lost {
				t.Errorf("%d were received, %d taken and %d dropped", got, taken, lost2-lost)
			}
			if most, least := passLimits(checked, way.weak); passed-repeated > most || way.random && passed < least {
				t.Errorf("%d of %d damaged datagrams pass the ICRC check, %d of them with damage that had passed before; it should be from %d to %d", passed, checked, repeated, least, most)
			}
			if checked < damaged/4 || c.Malformed == start.Malformed {
				t.Errorf("too few came to the checks: %+v", c)
			}
		})
	}
}

func sameButFlags(a, b string) bool { return len(a) == len(b) && a[:4] == b[:4] && a[5:] == b[5:] }

// difference is which bits of b differ from those of a, of the same length.
func difference(a, b []byte) string {
	var d []byte
	for i := range a {
		if a[i] != b[i] {
			d = append(binary.BigEndian.AppendUint16(d, uint16(i)), a[i]^b[i])
		}
	}
	return string(d)
}

// passLimits is how many of n damaged datagrams may and must pass the ICRC check:
// none where it is of 32 bits; where it is of 15, 2^-15 of them and six standard
// deviations more or less, which from 1.2 million on is fewer than one in 2^14. Each
// kind of damage, by the bits that are flipped, passes always or never: which bits
// came up again counts once.
func passLimits(n int, weak bool) (most, least int) {
	if !weak {
		return 0, 0
	}
	mean := float64(n) / (1 << 15)
	return int(mean + 6*math.Sqrt(mean)), max(0, int(mean-6*math.Sqrt(mean)))
}

// The limit is strict: always less than one in 2^14 where there is enough to tell
// it from chance.
func TestPassLimits(t *testing.T) {
	for _, n := range []int{1_200_000, 3_000_000, 10_000_000, 100_000_000} {
		if most, least := passLimits(n, true); most > n>>14 || most < n>>15 || least > n>>15 {
			t.Errorf("%d: from %d to %d may pass", n, least, most)
		}
	}
	if most, _ := passLimits(10_000_000, false); most != 0 {
		t.Errorf("%d may pass a check of 32 bits", most)
	}
}

// Trains as a raw socket has them, in one piece, are cut where the headers say,
// which damage can make say anything: what is delivered is one of the messages all
// the same.
func TestMutatedRawTrains(t *testing.T) {
	way := mutationWays()[3]
	n, d := way.open(t)
	n.enter(wireGroup, rdma.JoinFullMember)
	r := mutationRand(t, 100)
	texts := map[string]bool{}
	var bodies [][]byte
	for i := range 5 {
		text := fmt.Sprintf("message %d of a train which nobody may change on its way", i)
		texts[text] = true
		packet := build(text, func(p *rocev2.Path, h *rocev2.Header) { p.ID, h.PSN = uint16(i), uint32(i) })
		bodies = append(bodies, packet[28:])
	}
	train := build("", nil)[:28]
	for _, b := range bodies {
		train = append(train, b...)
	}
	lengths := func(b []byte) {
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		binary.BigEndian.PutUint16(b[24:], uint16(len(b)-20))
	}
	lengths(train)
	give := func(b []byte) []message {
		d.rxMu.Lock()
		defer d.rxMu.Unlock()
		if d.rx.mem == nil {
			must(t, "receive memory", d.rx.open(d))
		}
		d.rx.in.rawPacket(b, d.link.index)
		if d.rx.in.flush() > 0 {
			return n.poll()
		}
		return nil
	}
	if got := give(bytes.Clone(train)); len(got) != len(bodies) {
		t.Fatalf("%d of the undamaged train: %s", len(got), n.stats())
	}
	var b []byte
	delivered := 0
	for range mutationCount() {
		if b = mutate(r, b, train, way.head); len(b) >= way.head && r.IntN(8) != 0 {
			lengths(b)
		}
		before := accounted(d)
		got := give(b)
		for _, m := range got {
			if !texts[m.data] {
				t.Errorf("%q is delivered", m.data)
			}
		}
		if n := accounted(d) - before; n == 0 || n < uint64(len(got)) {
			t.Fatalf("a train of which %d are delivered is counted as %d: % x", len(got), n, b)
		}
		delivered += len(got)
	}
	if delivered == 0 {
		t.Error("nothing of any damaged train is delivered")
	}
}

// FuzzQueuePair gives a receiving queue pair whatever the fuzzer finds, in each
// way: nothing may panic, each datagram is counted once, and where the check is
// whole what is delivered has the right ICRC.
func FuzzQueuePair(f *testing.F) {
	ways := mutationWays()
	type rig struct {
		n *peer
		d *device
		s []sample
	}
	var rigs []rig
	for i := range ways {
		if ways[i].full && !rawAllowed() {
			rigs = append(rigs, rig{})
			continue
		}
		n, d := ways[i].open(f)
		s := ways[i].samples(f, n)
		for _, s := range s {
			f.Add(uint8(i), s.packet)
		}
		rigs = append(rigs, rig{n, d, s})
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		i := int(which) % len(ways)
		w, g := &ways[i], rigs[i]
		if g.n == nil || w.copies > 1 || len(b) > 1<<16-1 {
			return
		}
		g.n.t = t
		s := g.s[0]
		if !w.full && !w.wrap && len(b) >= w.head {
			// The socket that the kernel would have chosen.
			for _, o := range g.s {
				if dst := &o.path.Dst; dst.IsV4Mapped() && bytes.Equal(b[16:20], dst[12:]) || !dst.IsV4Mapped() && bytes.Equal(b[24:40], dst[:]) {
					s = o
				}
			}
		}
		b = bytes.Clone(b)
		before, after := uint64(0), uint64(0)
		d := g.d
		d.rxMu.Lock()
		if d.rx.mem == nil {
			must(t, "receive memory", d.rx.open(d))
		}
		before = accounted(d)
		if len(b) >= w.head || w.full || w.wrap {
			w.give(d, &s, b)
		}
		received := int(d.rx.in.received)
		delivered := d.rx.in.flush()
		after = accounted(d)
		d.rxMu.Unlock()
		if delivered > received || uint64(received) > after-before {
			t.Fatalf("%d counted, %d received, %d delivered", after-before, received, delivered)
		}
		for range g.n.poll() {
			delivered--
		}
		if delivered != 0 {
			t.Fatalf("%d too many are counted as delivered", delivered)
		}
		if received == 1 && after-before == 1 && w.full && !accepted(b) {
			t.Fatalf("% x is received", b)
		}
	})
}

// TestMutationsByLoopback sends damaged packets over loopback, so that the kernel
// is part of it: each is counted once, and with CheckFull and on IPv6 nothing
// damaged comes out.
func TestMutationsByLoopback(t *testing.T) {
	if !rawAllowed() {
		testenv.Skip(t, "making packets needs CAP_NET_RAW: run as root")
	}
	const text = "sixty-four bytes of payload, which nobody may change on the way."
	for i, way := range []struct {
		name  string
		check Check
		ip    netip.Addr
	}{{"IPv4 check=udp", CheckUDP, mutationV4}, {"IPv4 check=full", CheckFull, mutationV4}, {"IPv6 check=udp", CheckUDP, mutationV6}} {
		t.Run(way.name, func(t *testing.T) {
			r := mutationRand(t, uint64(200+i))
			n := newPeer(t, openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{way.ip}, Check: way.check}))
			var good []byte
			var send func(b []byte)
			if way.ip.Is4() {
				n.enter(wireGroup, rdma.JoinFullMember)
				in := newInjector(t)
				packet := build(text, nil)
				good = packet[28:]
				send = func(b []byte) {
					p := append(bytes.Clone(packet[:28]), b...)
					binary.BigEndian.PutUint16(p[24:], uint16(8+len(b)))
					in.send(p)
				}
			} else {
				good, send = loopback6(t, text, n.qp.QPN())
			}
			var b []byte
			count, damaged := max(1000, mutationCount()/50), 0
			for range count {
				b = mutate(r, b, good, 0)
				send(b)
				for _, m := range n.poll() {
					if m.data != text {
						damaged++
					}
				}
			}
			send(good)
			if got := n.wait(1); got[0].data != text {
				t.Errorf("the undamaged packet came as %q", got[0].data)
			}
			if limit, _ := passLimits(count, way.check == CheckUDP && way.ip.Is4()); damaged > limit {
				t.Errorf("%d of %d damaged packets were delivered, at most %d may: %s", damaged, count, limit, n.stats())
			}
			if got := accounted(n.p.devices[0]); got != uint64(count)+1 {
				t.Errorf("%d packets are counted %d times: %s", count+1, got, n.stats())
			}
		})
	}
}

// loopback6 is a datagram over IPv6 loopback to a queue pair, from the BTH on, and
// how to send such.
func loopback6(t *testing.T, text string, qpn rdma.QPN) (good []byte, send func([]byte)) {
	t.Helper()
	c, err := net.ListenPacket("udp6", "[::1]:0")
	must(t, "socket", err)
	t.Cleanup(func() { c.Close() })
	gid := rdma.GIDFromIP(mutationV6)
	from := c.LocalAddr().(*net.UDPAddr)
	p := rocev2.Path{Src: gid, Dst: gid, SrcPort: uint16(from.Port), DstPort: rocev2.Port}
	h := rocev2.Header{PKey: 0xffff, DestQPN: qpn, QKey: rdma.UDPQKey, SrcQPN: 17}
	good = make([]byte, h.Size(len(text)))
	copy(h.Put(good, len(text)), text)
	rocev2.Seal(p.Prefix(len(good)), good)
	to := &net.UDPAddr{IP: mutationV6.AsSlice(), Port: rocev2.Port}
	return good, func(b []byte) {
		_, err := c.WriteTo(b, to)
		must(t, "send", err)
	}
}

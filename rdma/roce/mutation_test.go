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
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/internal/wire"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

var (
	mutations = flag.Int("roce.mutations", 50_000, "damaged packets for each input path")
	seed      = flag.Uint64("roce.seed", 1, "seed of the mutations; 0 means a random one")
)

// mutationCount returns the number of mutations to try: fewer with -short.
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

// TestMutations passes damaged packets to a receiving queue pair on each input path after the kernel: computed packets,
// captured ones and packets of the reliable layer, with damage of all kinds. Nothing may panic, and each packet is
// counted once. Packets damaged only outside the ICRC's coverage are delivered. Of the others none is delivered, except
// the share of 2^-15 that CheckUDP permits on IPv4; of those, no packet of the reliable layer passes its CRC-32C.
func TestMutations(t *testing.T) {
	for i, route := range mutationPaths() {
		t.Run(route.name, func(t *testing.T) {
			r := mutationRand(t, uint64(i))
			n, d := route.open(t)
			samples := route.samples(t, n)
			deliver := func(s *sample, p pass) (unexpected []message) {
				for _, m := range p.messages {
					if m.data == string(s.payload) && p.intact > 0 {
						p.intact--
						continue
					}
					unexpected = append(unexpected, m)
				}
				if p.intact > 0 && s.isDatagram {
					t.Fatalf("%s: %d undamaged datagrams are not delivered: %s", s.name, p.intact, n.stats())
				}
				return unexpected
			}
			for i := range samples {
				s := &samples[i]
				if got := route.deliver(t, n, d, s, bytes.Clone(s.packet)); s.isDatagram != (got.delivered == 1) || len(deliver(s, got)) > 0 {
					t.Fatalf("undamaged %s: delivered %+v, want a datagram: %v %s", s.name, got, s.isDatagram, n.stats())
				}
			}
			start, lost := n.counters(), dropped(t, n)
			var b, original []byte
			var grown sample
			var checked, damaged, passed, repeated, delivered, refused, accepted int
			patterns := map[string]bool{}
			for range mutationCount() / max(1, route.share) {
				s := &samples[r.IntN(len(samples))]
				if s.isDatagram && r.IntN(4) != 0 {
					grown.grow(&route, r, s)
					s = &grown
				}
				original = append(original[:0], s.packet...)
				for range route.copies - 1 {
					original = append(original, s.packet[route.head:]...)
				}
				b = mutate(r, b, original, route.head)
				if route.full && len(b) >= route.head && r.IntN(8) != 0 { // with the right total length
					binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
					binary.BigEndian.PutUint16(b[24:], uint16(len(b)-20))
				}
				if route.random && len(b) >= route.head {
					for _, part := range route.parts(s, b) {
						if n := len(part) - rocev2.ICRCBytes; n >= 0 && !intact(part, s.packet[route.head:]) {
							binary.LittleEndian.PutUint32(part[n:], r.Uint32())
						}
					}
				}
				failed := d.count.icrcErrors.Load()
				p := route.deliver(t, n, d, s, b)
				accepted += p.delivered
				damaged += p.segments - p.intact
				wrong := p.received - p.intact
				if !s.isDatagram {
					wrong = p.received
				}
				if wrong > 0 && !route.random {
					if pattern := difference(original, b); patterns[pattern] {
						repeated += wrong
					} else {
						patterns[pattern] = true
					}
				}
				passed += wrong
				checked += wrong + int(d.count.icrcErrors.Load()-failed)
				for _, m := range deliver(s, p) {
					delivered++
					if !route.weak {
						t.Errorf("damaged %s is delivered as %q", s.name, m.data)
					}
					switch {
					case !s.checksummed || m.data == string(s.payload): // damage before the payload
					case len(m.data) < wire.HeaderLen || wire.Verify([]byte(m.data), true) != nil:
						refused++
					case !sameButFlags(m.data, string(s.payload)): // the flags are not covered (docs/protocol)
						t.Errorf("damaged %s is delivered as %q, and has the right CRC-32C", s.name, m.data)
					}
				}
			}
			c, lost2 := n.counters(), dropped(t, n)
			t.Logf("%d damaged datagrams, %d reached the ICRC check, %d passed it (%d of them with the same damage as one before), %d of them were delivered, %d of these the reliable layer rejects by its CRC-32C; %d malformed, %d with a wrong ICRC, %d foreign, %d refused, %d delivered in all",
				damaged, checked, passed, repeated, delivered, refused, c.Malformed-start.Malformed, c.ICRCErrors-start.ICRCErrors, c.Foreign-start.Foreign, c.RelayRefused-start.RelayRefused, accepted)
			if got := c.Received - start.Received; got != uint64(accepted)+lost2-lost {
				t.Errorf("%d received, %d delivered and %d dropped, want their sum", got, accepted, lost2-lost)
			}
			if maxPasses, minPasses := passLimits(checked, route.weak); passed-repeated > maxPasses || route.random && passed < minPasses {
				t.Errorf("%d of %d damaged datagrams pass the ICRC check, %d of them with damage that had passed before; the number should be from %d to %d", passed, checked, repeated, minPasses, maxPasses)
			}
			if checked < damaged/4 || c.Malformed == start.Malformed {
				t.Errorf("too few reached the checks: %+v", c)
			}
		})
	}
}

func sameButFlags(a, b string) bool { return len(a) == len(b) && a[:4] == b[:4] && a[5:] == b[5:] }

// difference describes the bits of b that differ from those of a, where b ends if it is shorter, and the additional
// bytes if it is longer. Truncation can also be repeated damage.
func difference(a, b []byte) string {
	var d []byte
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			d = append(binary.BigEndian.AppendUint16(d, uint16(i)), a[i]^b[i])
		}
	}
	if len(a) != len(b) {
		d = binary.BigEndian.AppendUint16(d, uint16(len(b)))
	}
	if len(b) > len(a) {
		d = append(d, b[len(a):]...)
	}
	return string(d)
}

// passLimits returns the maximum and minimum number of n damaged datagrams that pass the ICRC check: none if it has 32
// bits; if it has 15 bits, a share of 2^-15 plus or minus six standard deviations, which from 1.2 million on is fewer
// than one in 2^14. Damage of the same bits always or never passes, so repeated damage counts once. If few are
// expected, similar damage has more weight: up to 16 may pass, of tens of thousands that would pass without the check.
func passLimits(n int, weak bool) (maxPasses, minPasses int) {
	if !weak {
		return 0, 0
	}
	mean := float64(n) / (1 << 15)
	return max(16, int(mean+6*math.Sqrt(mean))), max(0, int(mean-6*math.Sqrt(mean)))
}

// The limit is always less than one in 2^14, if the sample is large enough.
func TestPassLimits(t *testing.T) {
	for _, n := range []int{1_200_000, 3_000_000, 10_000_000, 100_000_000} {
		if maxPasses, minPasses := passLimits(n, true); maxPasses > n>>14 || maxPasses < n>>15 || minPasses > n>>15 {
			t.Errorf("%d damaged packets: from %d to %d may pass, want from %d to %d and at most %d", n, minPasses, maxPasses, n>>15, n>>14, n>>15)
		}
	}
	if maxPasses, _ := passLimits(10_000_000, false); maxPasses != 0 {
		t.Errorf("%d may pass a check of 32 bits, want none", maxPasses)
	}
}

// A train that a raw socket receives in one piece is split at its headers, which damage can change arbitrarily.
// Nevertheless each delivered datagram is one of the messages.
func TestMutatedRawTrains(t *testing.T) {
	route := mutationPaths()[3]
	n, d := route.open(t)
	n.enter(wireGroup, rdma.JoinFullMember)
	r := mutationRand(t, 100)
	texts := map[string]bool{}
	var bodies [][]byte
	for i := range 5 {
		text := fmt.Sprintf("message %d of a train that must not change in transit", i)
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
		t.Fatalf("%d datagrams of the undamaged train, want %d: %s", len(got), len(bodies), n.stats())
	}
	var b []byte
	delivered := 0
	for range mutationCount() {
		if b = mutate(r, b, train, route.head); len(b) >= route.head && r.IntN(8) != 0 {
			lengths(b)
		}
		before := accounted(d)
		got := give(b)
		for _, m := range got {
			if !texts[m.data] {
				t.Errorf("the message %q is delivered, but was never sent", m.data)
			}
		}
		if n := accounted(d) - before; n == 0 || n < uint64(len(got)) {
			t.Fatalf("of a train %d are delivered, but %d counted: % x", len(got), n, b)
		}
		delivered += len(got)
	}
	if delivered == 0 {
		t.Error("no datagram of any damaged train is delivered")
	}
}

// FuzzQueuePair passes the fuzzer's input to a receiving queue pair on each path. Nothing may panic, each datagram is
// counted once, and with a full check delivered datagrams have the right ICRC.
func FuzzQueuePair(f *testing.F) {
	routes := mutationPaths()
	type rig struct {
		n *peer
		d *device
		s []sample
	}
	var rigs []rig
	for i := range routes {
		if routes[i].full && !rawAllowed() {
			rigs = append(rigs, rig{})
			continue
		}
		n, d := routes[i].open(f)
		s := routes[i].samples(f, n)
		for _, s := range s {
			f.Add(uint8(i), s.packet)
		}
		rigs = append(rigs, rig{n, d, s})
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		i := int(which) % len(routes)
		w, g := &routes[i], rigs[i]
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
			t.Fatalf("%d too many counted as delivered", delivered)
		}
		if received == 1 && after-before == 1 && w.full && !accepted(b) {
			t.Fatalf("the damaged packet % x is received", b)
		}
	})
}

// TestMutationsByLoopback sends damaged packets over loopback, so that the kernel is included: each is counted once,
// and with CheckFull and on IPv6 no damaged one is delivered.
func TestMutationsByLoopback(t *testing.T) {
	if !rawAllowed() {
		testenv.Skip(t, "sending raw packets needs CAP_NET_RAW: run as root")
	}
	const text = "sixty-four bytes of payload that must not be changed in transit."
	for i, route := range []struct {
		name  string
		check Check
		ip    netip.Addr
	}{{"IPv4 check=udp", CheckUDP, mutationV4}, {"IPv4 check=full", CheckFull, mutationV4}, {"IPv6 check=udp", CheckUDP, mutationV6}} {
		t.Run(route.name, func(t *testing.T) {
			r := mutationRand(t, uint64(200+i))
			n := newPeer(t, openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{route.ip}, Check: route.check}))
			var good []byte
			var send func(b []byte)
			if route.ip.Is4() {
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
			for i := range count {
				b = mutate(r, b, good, 0)
				send(b)
				for _, m := range n.poll() {
					if m.data != text {
						damaged++
					}
				}
				awaitAccounted(t, n, i+1-mutationsAhead)
			}
			send(good)
			if got := n.wait(1); got[0].data != text {
				t.Errorf("the undamaged packet arrived as %q, want %q", got[0].data, text)
			}
			if limit, _ := passLimits(count, route.check == CheckUDP && route.ip.Is4()); damaged > limit {
				t.Errorf("%d of %d damaged packets were delivered, at most %d may: %s", damaged, count, limit, n.stats())
			}
			if got := accounted(n.p.devices[0]); got != uint64(count)+1 {
				t.Errorf("%d packets counted %d times: %s", count+1, got, n.stats())
			}
		})
	}
}

// mutationsAhead is the number of packets that may wait to be read. With many more the kernel drops packets, because
// the socket's buffer is full.
const mutationsAhead = 64

// awaitAccounted waits until the provider has counted the packets.
func awaitAccounted(t *testing.T, n *peer, packets int) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); packets > 0 && accounted(n.p.devices[0]) < uint64(packets); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(until) {
			t.Fatalf("%d packets are not counted: %s", packets, n.stats())
		}
	}
}

// loopback6 returns a datagram over IPv6 loopback to a queue pair, from the BTH on, and a function that sends such
// datagrams.
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
	rocev2.SetICRC(p.Prefix(len(good)), good)
	to := &net.UDPAddr{IP: mutationV6.AsSlice(), Port: rocev2.Port}
	return good, func(b []byte) {
		_, err := c.WriteTo(b, to)
		must(t, "send", err)
	}
}

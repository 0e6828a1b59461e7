//go:build linux

package roce

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// count is how many mutations to try: fewer in a short run.
func count() int {
	if testing.Short() {
		return min(*mutations, 5000)
	}
	return *mutations
}

var (
	mutations = flag.Int("roce.mutations", 50_000, "damaged packets for each way in")
	seed      = flag.Uint64("roce.seed", 0, "seed of the mutations; 0 takes another one each time")
)

// mutate damages a copy of b, in dst: some bits, some bytes, its length, or all
// of it.
func mutate(r *rand.Rand, dst, b []byte) []byte {
	dst = append(dst[:0], b...)
	for again := true; again; again = r.IntN(3) == 0 {
		switch n := len(dst); {
		case n == 0:
			return dst
		case r.IntN(64) == 0: // nothing of it is left
			dst = dst[:0]
			for range r.IntN(128) {
				dst = append(dst, byte(r.Uint32()))
			}
		default:
			switch r.IntN(8) {
			case 0:
				dst = dst[:r.IntN(n+1)]
			case 1:
				dst = dst[:n&^3*r.IntN(n+1)/n&^3] // a whole number of words
			case 2:
				for range 4 * (1 + r.IntN(4)) {
					dst = append(dst, byte(r.Uint32()))
				}
			case 3:
				dst[r.IntN(n)] = byte(r.Uint32())
			case 4: // a burst
				at := r.IntN(n)
				for i := at; i < min(n, at+1+r.IntN(8)); i++ {
					dst[i] = byte(r.Uint32())
				}
			default:
				for range 1 + r.IntN(4) {
					dst[r.IntN(n)] ^= 1 << r.IntN(8)
				}
			}
		}
	}
	return dst
}

// TestMutations gives a receiving queue pair damaged packets in each of the ways
// by which packets come, after the kernel: nothing may panic, and what is
// delivered is what was sent; but for the 2^-15 that CheckUDP lets pass on IPv4.
func TestMutations(t *testing.T) {
	tries := count()
	const text = "sixty-four bytes of payload, which nobody may change on the way."
	v4, v6 := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")
	sent := build(text, nil)
	udp := sent[rocev2.HeaderBytes(true):]
	peer4 := rdma.GIDFromIP(netip.MustParseAddr("10.0.0.1"))
	for _, way := range []struct {
		name  string
		ip    netip.Addr
		full  bool
		group string
		// good is what give takes undamaged.
		good func(n *peer) []byte
		give func(n *peer, d *device, b []byte)
		weak bool
	}{
		{"UDP socket", v4, false, wireGroup, func(*peer) []byte { return udp },
			func(n *peer, d *device, b []byte) {
				s := &socket{kind: groupSocket, ipv4: true, dst: rdma.GIDFromIP(netip.MustParseAddr(wireGroup))}
				d.rx.in.train(s, b, max(1, len(b)), peer4, 57236, &netFields{0, 64})
			}, true},
		{"UDP socket, trains", v4, false, wireGroup, func(*peer) []byte { return append(bytes.Clone(udp), udp...) },
			func(n *peer, d *device, b []byte) {
				s := &socket{kind: groupSocket, ipv4: true, dst: rdma.GIDFromIP(netip.MustParseAddr(wireGroup))}
				d.rx.in.train(s, b, len(udp), peer4, 57236, &netFields{0, 64})
			}, true},
		{"raw socket", v4, true, wireGroup, func(*peer) []byte { return sent },
			func(n *peer, d *device, b []byte) { d.rx.in.rawPacket(b, d.link.index) }, false},
		{"IPv6", v6, false, "", func(n *peer) []byte { return build6(text, n.qp.QPN()) },
			func(n *peer, d *device, b []byte) {
				s := &socket{kind: unicastSocket, dst: rdma.GIDFromIP(v6)}
				d.rx.in.train(s, b, max(1, len(b)), rdma.GIDFromIP(v6), 57236, &netFields{0, 64})
			}, false},
		{"relay", v6, false, "", func(n *peer) []byte {
			u := build6(text, n.qp.QPN())
			b := make([]byte, relayHeaderBytes, relayHeaderBytes+len(u))
			b[0], b[2], b[4], b[5] = relayVersion, 64, 0xdf, 0x94
			gid := rdma.GIDFromIP(v6)
			copy(b[8:], gid[:])
			copy(b[24:], gid[:])
			return append(b, u...)
		}, func(n *peer, d *device, b []byte) {
			d.relayed(d.senders[n.qp.QPN()].lease, b)
		}, false},
	} {
		t.Run(way.name, func(t *testing.T) {
			check := CheckUDP
			if way.full {
				if !rawAllowed() {
					testenv.Skip(t, "CAP_NET_RAW is missing: run as root")
				}
				check = CheckFull
			}
			s := *seed
			if s == 0 {
				s = rand.Uint64()
			}
			t.Logf("-roce.seed=%d repeats this", s)
			r := rand.New(rand.NewPCG(s, 1))
			p := openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{way.ip}, Check: check})
			n := newPeer(t, p)
			if way.group != "" {
				n.enter(way.group, rdma.JoinFullMember)
			}
			d := p.devices[0]
			good := way.good(n)
			give := func(b []byte) []message {
				d.rxMu.Lock()
				if d.rx.mem == nil {
					must(t, "receive memory", d.rx.open(d))
				}
				way.give(n, d, b)
				d.rx.in.flush()
				d.rxMu.Unlock()
				return n.poll()
			}
			if got := give(bytes.Clone(good)); len(got) == 0 || got[0].data != text {
				t.Fatalf("the undamaged packet: %q %s", got, n.stats())
			}
			damaged := 0
			var b []byte
			for range tries {
				b = mutate(r, b, good)
				for _, m := range give(b) {
					if m.data != text {
						damaged++
					}
				}
			}
			c := n.counters()
			t.Logf("%d packets: %d delivered damaged; %d malformed, %d with a wrong ICRC, %d taken", tries, damaged, c.Malformed, c.ICRCErrors, c.Received)
			limit := 0
			if way.weak {
				// One in 2^14, and some, for few tries.
				limit = tries>>14 + 8
			}
			if damaged > limit {
				t.Errorf("%d damaged payloads were delivered, at most %d may", damaged, limit)
			}
			if c.ICRCErrors == 0 || c.Malformed == 0 {
				t.Errorf("counters: %+v", c)
			}
		})
	}
}

// build6 is a datagram over IPv6 loopback to a queue pair, from the BTH on.
func build6(payload string, qpn rdma.QPN) []byte {
	gid := rdma.GIDFromIP(netip.MustParseAddr("::1"))
	p := rocev2.Path{Src: gid, Dst: gid, SrcPort: 57236, DstPort: rocev2.Port}
	h := rocev2.Header{PKey: 0xffff, DestQPN: qpn, QKey: rdma.UDPQKey, SrcQPN: 17}
	b := make([]byte, h.Size(len(payload)))
	copy(h.Put(b, len(payload)), payload)
	rocev2.Seal(p.Prefix(len(b)), b)
	return b
}

// TestMutationsByLoopback sends damaged packets over loopback, so that the kernel
// is part of it: with CheckFull nothing damaged comes out.
func TestMutationsByLoopback(t *testing.T) {
	if !rawAllowed() {
		testenv.Skip(t, "making packets needs CAP_NET_RAW: run as root")
	}
	for _, check := range []Check{CheckUDP, CheckFull} {
		t.Run(fmt.Sprint(check), func(t *testing.T) {
			const text = "sixty-four bytes of payload, which nobody may change on the way."
			n, in := wireNode(t, check)
			r := rand.New(rand.NewPCG(*seed, 2))
			good := build(text, nil)
			var b []byte
			damaged, count := 0, max(1000, count()/50)
			for range count {
				b = mutate(r, b, good[rocev2.HeaderBytes(true):])
				packet := append(bytes.Clone(good[:rocev2.HeaderBytes(true)]), b...)
				packet[24], packet[25] = byte((8+len(b))>>8), byte(8+len(b))
				in.send(packet)
				for _, m := range n.poll() {
					if m.data != text {
						damaged++
					}
				}
			}
			in.send(good)
			if got := n.wait(1); got[0].data != text {
				t.Errorf("the undamaged packet came as %q", got[0].data)
			}
			if damaged > 0 && check == CheckFull || damaged > count>>14+4 {
				t.Errorf("%d of %d damaged packets were delivered: %s", damaged, count, n.stats())
			}
		})
	}
}

package roce

import (
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// input checks received datagrams and delivers them. It trusts no input. rxMu guards it.
type input struct {
	d    *device
	path rocev2.Path
	head rocev2.Header
	// run has n checked datagrams that are not delivered yet, and whole their bytes from the BTH on. They have the same
	// gram and, except for the identification, the same GRH area.
	run      [runMax]soft.Arrival
	payloads [runMax][]byte
	n        int
	gram     soft.Datagram
	area     [rdma.GRHBytes]byte
	// relayAllowed: datagrams for other processes are relayed.
	relayAllowed bool

	// prefix is the Prefix of path for datagrams of size bytes, with identification 0.
	prefix uint32
	size   int
	// last is the identification of the last datagram.
	last uint16
	// segment is the segment size of the last train from a raw socket.
	segment int

	// Counters since the last flush.
	received, bytes, recovered, delivered uint64
}

// runMax is the number of datagrams that are delivered together: as many as are still in the first-level cache after
// their ICRCs were computed.
const runMax = 16

// netFields are the fields of the IP header that the ICRC does not cover.
type netFields struct{ trafficClass, hopLimit uint8 }

// flush adds the counters to the device's, and returns the number of deliveries to queue pairs.
func (in *input) flush() int {
	c := &in.d.count
	if in.received > 0 {
		c.received.Add(in.received)
		c.receivedBytes.Add(in.bytes)
	}
	if in.recovered > 0 {
		c.recovered.Add(in.recovered)
	}
	n := int(in.delivered)
	in.received, in.bytes, in.recovered, in.delivered = 0, 0, 0, 0
	return n
}

// begin sets the path of the next datagrams.
func (in *input) begin(src, dst rdma.GID, port uint16, net *netFields) {
	p := &in.path
	p.Src, p.Dst, p.SrcPort, p.DstPort = src, dst, port, rocev2.Port
	p.ID, p.DontFragment = 0, dst.IsV4Mapped()
	in.size = -1
	g := &in.gram
	g.Port, g.GRH = 1, in.area[:]
	g.Net.Src, g.Net.Dst = src, dst
	g.Net.TrafficClass, g.Net.HopLimit = net.trafficClass, net.hopLimit
}

// train handles datagrams of a UDP socket, or a relayed one: b has segments of that size, the last may be shorter.
func (in *input) train(s *socket, b []byte, segment int, src rdma.GID, port uint16, net *netFields) {
	dst := s.dst
	if in.d.full && s.ipv4 && s.kind == unicastSocket {
		in.others(b, segment, src, dst, port, net)
		return
	}
	in.begin(src, dst, port, net)
	in.relayAllowed = s.kind == unicastSocket
	if len(b) == 0 {
		in.d.count.malformed.Add(1)
	}
	// The identifications of a train from this host count from 0; those of single datagrams are 0.
	for id := uint16(0); len(b) > 0; id++ {
		n := min(segment, len(b))
		id = in.datagram(b[:n:n], id, false)
		b = b[n:]
	}
	in.deliver()
}

// others relays datagrams for other processes. It does not count them: they are counted as raw packets.
func (in *input) others(b []byte, segment int, src, dst rdma.GID, port uint16, net *netFields) {
	in.begin(src, dst, port, net)
	for id := uint16(0); len(b) > 0; id++ {
		n := min(segment, len(b))
		if _, err := in.head.Parse(b[:n]); err == nil && in.head.DestQPN != rdma.MulticastQPN && !in.d.owns(in.head.DestQPN) {
			var ok bool
			if id, _, ok = in.verify(b[:n], id, false); ok {
				in.d.relay(in, in.head.DestQPN, b[:n])
			}
		}
		b = b[n:]
	}
}

// verify checks the ICRC of a parsed datagram. id is the expected IPv4 identification; if exact, no other is accepted.
// got is the actual one. weak means that it differed and was computed from the ICRC.
func (in *input) verify(b []byte, id uint16, exact bool) (got uint16, weak, ok bool) {
	if len(b) != in.size {
		in.size, in.prefix = len(b), in.path.Prefix(len(b))
	}
	prefix := in.prefix
	ipv4 := in.path.IsIPv4()
	if ipv4 {
		prefix = rocev2.WithID(prefix, id)
	}
	if sum, want := rocev2.Sum(prefix, b), rocev2.Want(b); sum != want {
		if !ipv4 || exact {
			return id, false, false
		}
		// Recover returns the difference from id.
		other, df, ok := rocev2.Recover(sum, want, len(b))
		if !ok {
			return id, false, false
		}
		// The next datagram of a train that arrived in parts has this value: that counts as a comparison.
		id ^= other
		weak = !df || id != in.last+1
	}
	in.last = id
	return id, weak, true
}

// datagram handles one datagram, from the BTH on, with the expected IPv4 identification id, and returns
// the actual one. If exact, only id is accepted.
func (in *input) datagram(b []byte, id uint16, exact bool) uint16 {
	c := &in.d.count
	payload, err := in.head.Parse(b)
	if err != nil {
		c.malformed.Add(1)
		return id
	}
	id, weak, ok := in.verify(b, id, exact)
	if !ok {
		c.icrcErrors.Add(1)
		return id
	}
	if weak {
		in.recovered++
	}
	in.received++
	in.bytes += uint64(len(b))

	h, g := &in.head, &in.gram
	size := uint16(8 + len(b))
	if in.n == runMax || in.n > 0 &&
		(g.SrcQPN != h.SrcQPN || g.DestQPN != h.DestQPN || g.QKey != h.QKey || g.PKey != h.PKey ||
			g.Net.PayloadLength != size) {
		in.deliver()
	}
	if in.n == 0 {
		g.SrcQPN, g.DestQPN, g.QKey, g.PKey, g.Net.PayloadLength = h.SrcQPN, h.DestQPN, h.QKey, h.PKey, size
	}
	in.run[in.n] = soft.Arrival{Payload: payload, HasImm: h.HasImm, Solicited: h.Solicited, Imm: h.Imm}
	if in.path.IsIPv4() {
		in.run[in.n].ID = id
	}
	in.payloads[in.n] = b
	in.n++
	return id
}

// deliver delivers the run to its queue pairs.
func (in *input) deliver() {
	if in.n == 0 {
		return
	}
	g := &in.gram
	rdma.PutGRH(in.area[:], rdma.LinkLayerEthernet, &g.Net, 0)
	accepted := in.d.soft.DeliverTrain(1, g, in.run[:in.n])
	in.delivered += uint64(accepted)
	if accepted == 0 && in.relayAllowed && g.DestQPN != rdma.MulticastQPN && !in.d.owns(g.DestQPN) {
		for _, b := range in.payloads[:in.n] {
			in.d.relay(in, g.DestQPN, b)
		}
	}
	in.n = 0
}

// rawPacket handles an IPv4 packet from the raw socket: one datagram, or a train that the kernel has merged before the
// IP layer (GRO), or that was sent by this host and never split.
func (in *input) rawPacket(b []byte, ifindex int) {
	var net rocev2.Net
	p := &in.path
	b, err := p.ParseIP(b, &net)
	if err != nil || p.DstPort != rocev2.Port || len(b) == 0 {
		in.d.count.malformed.Add(1)
		return
	}
	if p.Dst.IsMulticast() {
		if ifindex != in.d.link.index || !in.d.isMember(p.Dst) {
			in.d.count.foreign.Add(1)
			return
		}
	} else if !in.d.isOwn(p.Dst) {
		in.d.count.foreign.Add(1)
		return
	}
	id, df := p.ID, p.DontFragment
	in.begin(p.Src, p.Dst, p.SrcPort, &netFields{net.TrafficClass, net.HopLimit})
	in.relayAllowed = false
	p.DontFragment = df
	segment := in.cut(b, id)
	// The kernel merges only packets with consecutive identifications or, with DF, equal ones (kernel net/ipv4/af_inet.c,
	// inet_gro_receive).
	step := uint16(1)
	if len(b) > segment && !in.sound(b[segment:min(2*segment, len(b))], id+1) &&
		in.sound(b[segment:min(2*segment, len(b))], id) {
		step = 0
	}
	for len(b) > 0 {
		n := min(segment, len(b))
		in.datagram(b[:n:n], id, true)
		id += step
		b = b[n:]
	}
	in.deliver()
}

// sound reports whether the ICRC of a datagram is right for an identification.
func (in *input) sound(b []byte, id uint16) bool {
	return len(b) >= rocev2.MinBytes && len(b) <= rocev2.MaxBytes &&
		rocev2.Sum(rocev2.WithID(in.path.Prefix(len(b)), id), b) == rocev2.Want(b)
}

// cutTries is the maximum number of positions to try where the next datagram's headers seem to be. An attacker can make
// more, and each costs the ICRC of everything before it.
const cutTries = 8

// cut finds the segment size of a train: the position of headers with the same queue pairs and the next PSN. The ICRCs
// verify the result later.
func (in *input) cut(b []byte, id uint16) int {
	if len(b) <= rocev2.MinBytes || len(b) <= rocev2.MaxBytes && in.sound(b, id) {
		return len(b)
	}
	if s := in.segment; s > 0 && s <= len(b)-rocev2.MinBytes && rocev2.Follows(b, b[s:]) {
		return s
	}
	guess, tries := 0, 0
	for s := rocev2.MinBytes; s <= min(len(b)-rocev2.MinBytes, rocev2.MaxBytes) && tries < cutTries; s += 4 {
		if !rocev2.Follows(b, b[s:]) {
			continue
		}
		tries++
		if in.sound(b[:s], id) {
			in.segment = s
			return s
		}
		if guess == 0 {
			guess = s // perhaps only the first datagram is damaged
		}
	}
	if guess > 0 {
		return guess
	}
	return len(b)
}

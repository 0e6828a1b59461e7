package tap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/fanfaremq/fanfare/internal/wire"
)

// Why a frame gives no datagram.
var (
	errNotUDP   = errors.New("not UDP")
	errFragment = errors.New("part of a datagram that was sent in IP fragments, which are not put together")
	errCut      = errors.New("cut off: the capture holds only the beginning of its packets")
)

// linkType is a number of https://www.tcpdump.org/linktypes.html.
type linkType int

const (
	linkNull     linkType = 0
	linkEthernet linkType = 1
	linkRawBSD   linkType = 12
	linkRaw      linkType = 101
	linkLoop     linkType = 108
	linkSLL      linkType = 113
	linkERF      linkType = 197
	linkIPv4     linkType = 228
	linkIPv6     linkType = 229
	linkIB       linkType = 247
	linkSLL2     linkType = 276
)

// checkLink says whether frames of that type can be read.
func checkLink(link linkType) error {
	switch link {
	case linkNull, linkEthernet, linkRawBSD, linkRaw, linkLoop, linkSLL, linkERF, linkIPv4, linkIPv6, linkIB, linkSLL2:
		return nil
	}
	return fmt.Errorf("frames of link type %d cannot be read: Ethernet, raw IP, Linux cooked captures and InfiniBand can", link)
}

// datagram is a UDP datagram of a capture.
type datagram struct {
	from, to netip.AddrPort
	payload  []byte
}

// packetOf is the packet in a frame, and its protocol over Ethernet.
func packetOf(link linkType, b []byte) (proto uint16, packet []byte, err error) {
	header, at := 0, -1 // where the protocol stands
	switch link {
	case linkNull, linkLoop:
		header = 4
	case linkEthernet:
		header, at = 14, 12
	case linkSLL:
		header, at = 16, 14
	case linkSLL2:
		header, at = 20, 0
	}
	if len(b) <= header {
		return 0, nil, errCut
	}
	switch {
	case at >= 0:
		return binary.BigEndian.Uint16(b[at:]), b[header:], nil
	case b[header]>>4 == 6:
		return protoIPv6, b[header:], nil
	}
	return protoIPv4, b[header:], nil
}

func udpBetween(from, to netip.Addr, b []byte) (datagram, error) {
	if len(b) < 8 {
		return datagram{}, errNotUDP
	}
	n := int(binary.BigEndian.Uint16(b[4:]))
	if n == 0 || n > len(b) {
		n = len(b) // a train of segmentation offload
	}
	if n < 8 {
		return datagram{}, errNotUDP
	}
	return datagram{
		netip.AddrPortFrom(from, binary.BigEndian.Uint16(b)), netip.AddrPortFrom(to, binary.BigEndian.Uint16(b[2:])), b[8:n],
	}, nil
}

// erfOf is the frame in a record of ERF (https://wiki.wireshark.org/ERF), which ibdump and capture cards
// write: behind its header, extension headers, and the padding of Ethernet.
func erfOf(b []byte) (linkType, []byte, error) {
	const header, extension, more = 16, 8, 0x80
	if len(b) < header {
		return 0, nil, errCut
	}
	kind, next := b[8]&^more, b[8]&more != 0
	for b = b[header:]; next; b = b[extension:] {
		if len(b) < extension {
			return 0, nil, errCut
		}
		next = b[0]&more != 0
	}
	switch kind {
	case 2, 11, 16, 20: // ETH, COLOR_ETH, DSM_COLOR_ETH, COLOR_HASH_ETH
		if len(b) < 2 {
			return 0, nil, errCut
		}
		return linkEthernet, b[2:], nil
	case 21: // INFINIBAND
		return linkIB, b, nil
	case 22: // IPV4
		return linkIPv4, b, nil
	case 23: // IPV6
		return linkIPv6, b, nil
	}
	return 0, nil, fmt.Errorf("records of ERF of type %d, which is neither Ethernet, IP nor InfiniBand", kind)
}

// udOf finds the Unreliable Datagram in an InfiniBand frame: LRH, GRH if it has one, BTH and
// on, VCRC. InfiniBand Architecture Specification, volume 1, §5.2.
func udOf(b []byte) (Packet, []byte, error) {
	const lrh, grh, vcrc = 8, 40, 2
	if len(b) < lrh {
		return Packet{}, nil, errCut
	}
	length := int(binary.BigEndian.Uint16(b[4:])&0x7ff) * 4 // up to the VCRC
	d := Packet{From: fmt.Sprintf("lid:%d", binary.BigEndian.Uint16(b[6:])), To: fmt.Sprintf("lid:%d", binary.BigEndian.Uint16(b[2:]))}
	kind := b[1] & 3 // LNH
	if len(b) < length || length < lrh {
		return d, nil, errCut
	}
	b = b[lrh:length]
	switch kind {
	case 2:
		return d, b, nil
	case 3:
		if len(b) < grh {
			return d, nil, errCut
		}
		to := netip.AddrFrom16([16]byte(b[24:]))
		d.From, d.To = netip.AddrFrom16([16]byte(b[8:])).String(), to.String()
		if a, ok := ipOfMGID(to.As16()); ok {
			d.To = udAddress(a)
		}
		return d, b[grh:], nil
	}
	return d, nil, errNotUDP
}

// ipOfMGID is the IPv4 address that an MGID was made of: docs/protocol.md §17.2.
func ipOfMGID(g [16]byte) (netip.Addr, bool) {
	if g[0] != 0xff || g[2] != 0x40 || g[3] != 0x01 {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte{0xe0 | g[12]&0x0f, g[13], g[14], g[15]}), true
}

// split yields the packets of a UDP datagram in a capture. A host with segmentation offload
// hands a whole train to captures as if it were one datagram: packets of one stream, all of
// one length but the last, which may be shorter.
func split(b []byte) iter.Seq[[]byte] {
	if len(b) == 0 {
		return slices.Values([][]byte{b})
	}
	return slices.Chunk(b, segment(b))
}

// segment is the length of the packets of the train b; len(b) if it is a single packet.
func segment(b []byte) int {
	if len(b) < 2*wire.HeaderLen {
		return len(b)
	}
	stream := b[16:wire.HeaderLen] // publisher and epoch; of signed packets salt, and some of the signature
	at := wire.HeaderLen
	for range maxTries {
		i := bytes.Index(b[at:], stream)
		if i < 0 {
			break
		}
		at += i
		if size := at - 16; size >= wire.HeaderLen && (isTrain(b, size) || isSealedTrain(b, size) || isSignedTrain(b, size)) {
			return size
		}
		at++
	}
	return len(b)
}

// isTrain reports whether a packet of the same stream begins at each multiple of size, and
// receivers would take each. New data follows in sequence, repairs come in any order.
func isTrain(b []byte, size int) bool {
	if size < len(b)/maxTrain {
		return false
	}
	last, isData := uint64(0), false
	for p := range slices.Chunk(b, size) {
		h, err := wire.ParseHeader(p)
		if err != nil || !bytes.Equal(p[8:12], b[8:12]) || !bytes.Equal(p[16:wire.HeaderLen], b[16:wire.HeaderLen]) {
			return false
		}
		if h.Type != wire.TypeData {
			continue
		}
		d, err := wire.ParseData(p)
		if err != nil || isData && h.Flags&wire.FlagRepair == 0 && d.Seq <= last {
			return false
		}
		last, isData = d.Seq, true
	}
	return true
}

// isSealedTrain is the same for packets that are sealed: they have key, time, sender and train in
// common, and counters that follow each other. docs/protocol.md §27.2.
func isSealedTrain(b []byte, size int) bool {
	const common, header = 8, 40 // where what they have in common begins and ends
	if size < len(b)/maxTrain || !wire.IsSealed(b) {
		return false
	}
	next := wire.ParseSealed(b).Counter
	for p := range slices.Chunk(b, size) {
		if !wire.IsSealed(p) || !bytes.Equal(p[common:header], b[common:header]) || wire.ParseSealed(p).Counter != next {
			return false
		}
		next++
	}
	return true
}

// isSignedTrain is the same for packets that are signed: they have all but their nodes in common, which follow
// each other. docs/protocol.md §29.3.
func isSignedTrain(b []byte, size int) bool {
	const node, common = 3, 4
	if size < len(b)/maxTrain || size < wire.SignedLen || !wire.IsSigned(b) {
		return false
	}
	next := b[node]
	for p := range slices.Chunk(b, size) {
		if len(p) < wire.SignedLen || p[node] != next || !bytes.Equal(p[:node], b[:node]) || !bytes.Equal(p[common:wire.SignedLen], b[common:wire.SignedLen]) {
			return false
		}
		next++
	}
	return true
}

const (
	maxTrain = 128 // packets of a train: udp(7), UDP_MAX_SEGMENTS
	maxTries = 8   // bounds the work for a packet that repeats its own header
)

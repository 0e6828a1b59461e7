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

// linkHeaders are those of the types that can be read: how long they are, and where the protocol stands; -1: nowhere.
var linkHeaders = map[linkType]struct{ length, proto int }{
	linkNull: {4, -1}, linkLoop: {4, -1}, linkRawBSD: {0, -1}, linkRaw: {0, -1}, linkIPv4: {0, -1}, linkIPv6: {0, -1},
	linkEthernet: {14, 12}, linkSLL: {16, 14}, linkSLL2: {20, 0}, linkERF: {}, linkIB: {},
}

func checkLink(link linkType) error {
	if _, ok := linkHeaders[link]; !ok {
		return fmt.Errorf("frames of link type %d cannot be read: Ethernet, raw IP, Linux cooked captures and InfiniBand can", link)
	}
	return nil
}

type datagram struct {
	from, to netip.AddrPort
	payload  []byte
}

func packetOf(link linkType, b []byte) (proto uint16, packet []byte, err error) {
	h := linkHeaders[link]
	if len(b) <= h.length {
		return 0, nil, errCut
	}
	switch {
	case h.proto >= 0:
		return binary.BigEndian.Uint16(b[h.proto:]), b[h.length:], nil
	case b[h.length]>>4 == 6:
		return protoIPv6, b[h.length:], nil
	}
	return protoIPv4, b[h.length:], nil
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
		if size := at - 16; size >= wire.HeaderLen && isTrain(b, size) {
			return size
		}
		at++
	}
	return len(b)
}

// isTrain reports whether packets that belong together begin at each multiple of size.
func isTrain(b []byte, size int) bool {
	follows := followsInStream
	switch {
	case size < len(b)/maxTrain:
		return false
	case wire.IsSealed(b):
		follows = followsSealed
	case wire.IsSigned(b):
		follows = followsSigned
	}
	last := b[:size]
	for p := range slices.Chunk(b[size:], size) {
		if !follows(last, p) {
			return false
		}
		last = p
	}
	return true
}

// followsInStream reports whether a packet is of the same stream as the one before it, and receivers would take it. New
// data follows in sequence, repairs come in any order.
func followsInStream(last, p []byte) bool {
	before, err1 := wire.ParseHeader(last)
	h, err2 := wire.ParseHeader(p)
	if err1 != nil || err2 != nil ||
		h.GroupTag != before.GroupTag || h.Publisher != before.Publisher || h.Epoch != before.Epoch {
		return false
	}
	if before.Type != wire.TypeData || h.Type != wire.TypeData {
		return true
	}
	old, err1 := wire.ParseData(last)
	d, err2 := wire.ParseData(p)
	return err1 == nil && err2 == nil && (h.Flags&wire.FlagRepair != 0 || d.Seq > old.Seq)
}

// followsSealed is the same for packets that are sealed: they have key, time, sender and train in common, and counters
// that follow each other. docs/protocol.md §27.2.
func followsSealed(last, p []byte) bool {
	next := wire.ParseSealed(last).Counter + 1
	return wire.IsSealed(p) && bytes.Equal(p[8:40], last[8:40]) && wire.ParseSealed(p).Counter == next
}

// followsSigned is the same for packets that are signed: they have all but their nodes in common, which follow each
// other. docs/protocol.md §29.3.
func followsSigned(last, p []byte) bool {
	const node = 3
	return min(len(last), len(p)) >= wire.SignedLen && p[node] == last[node]+1 &&
		bytes.Equal(p[:node], last[:node]) && bytes.Equal(p[node+1:wire.SignedLen], last[node+1:wire.SignedLen])
}

const (
	maxTrain = 128 // packets of a train: udp(7), UDP_MAX_SEGMENTS
	maxTries = 8   // bounds the work for a packet that repeats its own header
)

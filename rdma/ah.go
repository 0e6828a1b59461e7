package rdma

import (
	"net/netip"
	"syscall"
)

// GRH is the global route header of an address handle (struct ibv_global_route).
type GRH struct {
	DGID         GID
	FlowLabel    uint32 // 20 bits
	SGIDIndex    int    // index in the port's GID table
	HopLimit     uint8
	TrafficClass uint8 // the TOS byte on RoCE
}

// AHAttr has the attributes of an address handle (struct ibv_ah_attr). For multicast use those of the
// join's event, Event.UD.AHAttr.
type AHAttr struct {
	GRH         GRH
	DLID        LID // 0 on RoCE
	SL          uint8
	SrcPathBits uint8
	StaticRate  uint8 // enum ibv_rate; 0 is the port's
	IsGlobal    bool  // always on RoCE
	Port        uint8
}

// ReplyHopLimit is the hop limit of handles of ReplyAHAttr, the same as the connection manager's for RoCEv2 groups.
const ReplyHopLimit = 64

// Local is the local port and GID from which a reply is sent: those at which the datagram arrived.
type Local struct {
	Port      uint8
	LinkLayer LinkLayer
	SGIDIndex int
}

// ReplyAHAttr returns the attributes of an address handle to the sender of the datagram that wc completed, which may be
// a multicast or a unicast datagram. The sender's queue pair is wc.SrcQPN. area is the first GRHBytes bytes of the
// receive buffer. The datagram does not contain the sender's Q_Key: the connection manager's queue pairs have UDPQKey.
//
// ibv_create_ah_from_wc(3) cannot do this: it fails with EINVAL for a datagram that was sent to a group. ReplyAHAttr
// returns EINVAL if wc is not of a received datagram, if area has no valid header, or if the source, which any host can
// forge, is not the address of a single port: a group, the unspecified or the limited broadcast address, on InfiniBand
// a multicast LID. A reply to such an address would reach many hosts. docs/protocol §17.5.
func ReplyAHAttr(local Local, wc *WorkCompletion, area []byte) (AHAttr, error) {
	h, err := receivedHeader("reply address", local.LinkLayer, wc, area)
	if err != nil {
		return AHAttr{}, err
	}
	if !isOnePort(h.Src) {
		return AHAttr{}, Errorf("reply address", syscall.EINVAL, "the datagram's source %v is not the address of a port", h.Src)
	}
	if local.LinkLayer != LinkLayerEthernet && wc.SLID >= MLIDMin {
		return AHAttr{}, Errorf("reply address", syscall.EINVAL, "the datagram's source LID %#04x is not the LID of a port", uint16(wc.SLID))
	}
	attr := AHAttr{
		GRH: GRH{DGID: h.Src, SGIDIndex: local.SGIDIndex, FlowLabel: h.FlowLabel,
			HopLimit: ReplyHopLimit, TrafficClass: h.TrafficClass},
		IsGlobal: true,
		Port:     local.Port,
	}
	if local.LinkLayer != LinkLayerEthernet {
		attr.DLID, attr.SL, attr.SrcPathBits = wc.SLID, wc.SL, wc.DLIDPathBits
	}
	return attr, nil
}

// isOnePort reports whether a GID can be that of a port (IBTA 4.1.1; for source addresses RFC 1122 §3.2.1.3 and RFC
// 4291 §2.7). It cannot recognize the broadcast addresses of IP subnets.
func isOnePort(g GID) bool {
	ip := g.IP()
	return !g.IsMulticast() && !ip.IsUnspecified() && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// AHAttrFromWC is ibv_init_ah_from_wc: like ReplyAHAttr, but the source GID is the entry of the port's table that
// equals the datagram's destination. So it returns EINVAL for a multicast datagram (libibverbs verbs.c), and ENODATA
// (ENOENT on systems without ENODATA) if the port has no such GID. On InfiniBand the result for a datagram without a
// header is not global.
func AHAttrFromWC(dev Device, port uint8, wc *WorkCompletion, area []byte) (AHAttr, error) {
	const op = "address handle from completion"
	if dev == nil || wc == nil {
		return AHAttr{}, Errorf(op, syscall.EINVAL, "device or completion is nil")
	}
	p, err := dev.Port(port)
	if err != nil {
		return AHAttr{}, err
	}
	if wc.Flags&WCGRH == 0 && p.LinkLayer == LinkLayerInfiniBand {
		return AHAttr{DLID: wc.SLID, SL: wc.SL, SrcPathBits: wc.DLIDPathBits, Port: port}, nil
	}
	h, err := receivedHeader(op, p.LinkLayer, wc, area)
	if err != nil {
		return AHAttr{}, err
	}
	if h.Dst.IsMulticast() {
		return AHAttr{}, Errorf(op, syscall.EINVAL, "datagram was sent to group %v: use ReplyAHAttr", h.Dst)
	}
	gids, err := dev.GIDs(port)
	if err != nil {
		return AHAttr{}, err
	}
	for _, e := range gids {
		if e.GID == h.Dst && e.Type != GIDTypeRoCEv1 {
			return ReplyAHAttr(Local{Port: port, LinkLayer: p.LinkLayer, SGIDIndex: e.Index}, wc, area)
		}
	}
	return AHAttr{}, Errorf(op, errNoData, "port has no GID %v", h.Dst)
}

func receivedHeader(op string, layer LinkLayer, wc *WorkCompletion, area []byte) (Header, error) {
	switch {
	case wc == nil:
		return Header{}, Errorf(op, syscall.EINVAL, "completion is nil")
	case wc.Status != WCSuccess || wc.Opcode != WCRecv || wc.Flags&WCGRH == 0:
		return Header{}, Errorf(op, syscall.EINVAL, "completion is not of a received datagram with a header")
	}
	h, ok := ParseGRH(layer, area)
	if !ok {
		return Header{}, Errorf(op, syscall.EINVAL, "no header in the first %d bytes of the buffer", GRHBytes)
	}
	return h, nil
}

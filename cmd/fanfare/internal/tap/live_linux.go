package tap

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/gopacket/gopacket/afpacket"
	"golang.org/x/net/bpf"

	"github.com/fanfaremq/fanfare/internal/sys"
)

// OpenInterface captures the traffic of a network interface with a packet socket (packet(7)). It needs CAP_NET_RAW.
func OpenInterface(name string, groups *Groups) (Source, error) {
	iface, err := sys.InterfaceByName(name)
	if errors.Is(err, sys.ErrNoInterface) {
		return nil, fmt.Errorf("no network interface is named %q", name)
	}
	if err != nil {
		return nil, err
	}
	if n := len(iface.HardwareAddr); n != 6 && iface.Flags&net.FlagLoopback == 0 {
		return nil, fmt.Errorf("%s is not an Ethernet interface: record it with tcpdump, and read the file with -r", name)
	}
	h, err := afpacket.NewTPacket(afpacket.OptInterface(name), afpacket.OptTPacketVersion(afpacket.TPacketVersion3),
		afpacket.OptBlockSize(ringBlock), afpacket.OptFrameSize(ringBlock), afpacket.OptNumBlocks(ringBlocks),
		afpacket.OptBlockTimeout(ringDelay), afpacket.OptPollTimeout(checkEvery))
	if errors.Is(err, syscall.EPERM) {
		return nil, fmt.Errorf("%s: capturing requires root or CAP_NET_RAW: %w", name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	filter, err := bpf.Assemble(relevantFrames(iface.Flags&net.FlagLoopback != 0))
	if err == nil {
		err = h.SetBPF(filter)
	}
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	time.Sleep(time.Millisecond) // frames that passed before the filter are timestamped when they enter the ring
	c := newCapture(&ring{h: h, since: time.Now()}, groups)
	c.close = func() error { h.Close(); return nil }
	c.again = func(err error) bool { return errors.Is(err, afpacket.ErrTimeout) }
	c.lost = func() uint64 {
		_, s, _ := h.SocketStats()
		return uint64(s.Drops())
	}
	return c, nil
}

type ring struct {
	h     *afpacket.TPacket
	since time.Time // when the filter took effect; zero: all earlier frames have been read
}

func (r *ring) next() (frame, error) {
	for {
		b, info, err := r.h.ZeroCopyReadPacketData()
		if err == nil && info.Timestamp.Before(r.since) {
			continue // the kernel fills the ring before the filter is attached: this may be a duplicate
		}
		// the ring is empty; this also handles a clock that was set back
		if err == nil || errors.Is(err, afpacket.ErrTimeout) {
			r.since = time.Time{}
		}
		return frame{data: b, at: info.Timestamp, link: linkEthernet}, err
	}
}

// The ring that the kernel writes frames to has 32 MiB. A block is handed over when it is full or
// after ringDelay, so a slow stream fills the ring in ten seconds. A block holds the longest train.
const (
	ringBlock  = 1 << 17
	ringBlocks = 256
	ringDelay  = 40 * time.Millisecond
	checkEvery = 100 * time.Millisecond // interval of checks for an interruption
)

// relevantFrames accepts the frames that udpUnder handles: IP packets with UDP, fragments of them, and everything that
// may enclose them, in a VLAN or a tunnel. On loopback each packet is captured twice, outgoing and incoming: outgoing
// ones are dropped.
func relevantFrames(loopback bool) []bpf.Instruction {
	const outgoing = 4 // PACKET_OUTGOING
	list := []bpf.Instruction{bpf.RetConstant{Val: 0}, bpf.RetConstant{Val: maxFrame}}
	before := func(more ...bpf.Instruction) { list = append(more, list...) }
	no := func() uint8 { return uint8(len(list) - 2) } // for an instruction before the list
	yes := func() uint8 { return no() + 1 }
	for _, proto := range []uint32{ipUDP, ipIPv4, ipIPv6, ipGRE} {
		before(bpf.JumpIf{Cond: bpf.JumpEqual, Val: proto, SkipTrue: yes()})
	}
	before(bpf.LoadAbsolute{Off: 14 + 9, Size: 1})
	before(bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protoIPv4, SkipTrue: no()})
	for _, proto := range []uint32{protoIPv6, protoVLAN, protoQinQ, protoOldTag, protoMPLS, protoMPLSAny, protoPPPoE} {
		before(bpf.JumpIf{Cond: bpf.JumpEqual, Val: proto, SkipTrue: yes()})
	}
	before(bpf.LoadAbsolute{Off: 12, Size: 2})
	if loopback {
		before(bpf.LoadExtension{Num: bpf.ExtType}, bpf.JumpIf{Cond: bpf.JumpEqual, Val: outgoing, SkipTrue: no()})
	}
	return list
}

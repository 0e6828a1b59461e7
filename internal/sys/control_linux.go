package sys

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Control has the values of the control messages (cmsg(3)) of a received message. Absent values are zero; the socket's
// options determine which are present.
type Control struct {
	Segment      int    // UDP_GRO: bytes of each packet of a train except the last
	Interface    int    // IP_PKTINFO: index of the interface that received it
	Drops        uint32 // SO_RXQ_OVFL: see Drops
	UID          uint32 // SCM_CREDENTIALS: the user of the process that sent it
	HasDrops     bool
	HasUID       bool
	HopLimit     uint8 // IP_TTL, IPV6_HOPLIMIT
	TrafficClass uint8 // IP_TOS, IPV6_TCLASS
}

// Buffer sizes for control messages, in bytes.
const (
	// RoomForTrains fits UDP_GRO and SO_RXQ_OVFL.
	RoomForTrains = 48
	// RoomForHeaders also fits hop limit, traffic class and packet info.
	RoomForHeaders = 192
)

// RoomForUID fits SCM_CREDENTIALS and nothing else: a process that sends to a unix socket may attach descriptors, and
// the kernel installs those that fit into the control buffer.
var RoomForUID = unix.CmsgSpace(unix.SizeofUcred)

// Level and type of a control message in one number.
const (
	cmsgGRO        = unix.IPPROTO_UDP<<32 | unix.UDP_GRO
	cmsgDrops      = unix.SOL_SOCKET<<32 | unix.SO_RXQ_OVFL
	cmsgUID        = unix.SOL_SOCKET<<32 | unix.SCM_CREDENTIALS
	cmsgTTL        = unix.IPPROTO_IP<<32 | unix.IP_TTL
	cmsgTOS        = unix.IPPROTO_IP<<32 | unix.IP_TOS
	cmsgPacketInfo = unix.IPPROTO_IP<<32 | unix.IP_PKTINFO
	cmsgHopLimit   = unix.IPPROTO_IPV6<<32 | unix.IPV6_HOPLIMIT
	cmsgClass      = unix.IPPROTO_IPV6<<32 | unix.IPV6_TCLASS
)

// ControlBuffer returns memory for room bytes of control messages, aligned for Cmsghdr.
func ControlBuffer(room int) []byte {
	words := make([]uint64, (room+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
}

// ParseControl reads control messages from b, which must be aligned for Cmsghdr (see ControlBuffer). It stops at a
// truncated message or an impossible length.
func ParseControl(b []byte) (c Control) {
	for len(b) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		size := int(h.Len)
		if size < unix.CmsgLen(0) || size > len(b) {
			return c
		}
		data := b[unix.CmsgLen(0):size]
		word := uint32(0)
		if len(data) >= 4 {
			word = binary.NativeEndian.Uint32(data)
		} else if len(data) > 0 {
			word = uint32(data[0]) // IP_TOS has one byte
		}
		switch uint64(h.Level)<<32 | uint64(h.Type) {
		case cmsgGRO:
			c.Segment = int(int32(word))
		case cmsgDrops:
			c.Drops, c.HasDrops = word, true
		case cmsgTTL, cmsgHopLimit:
			c.HopLimit = uint8(word)
		case cmsgTOS, cmsgClass:
			c.TrafficClass = uint8(word)
		case cmsgPacketInfo:
			c.Interface = int(word)
		case cmsgUID:
			if len(data) >= unix.SizeofUcred {
				c.UID, c.HasUID = (*unix.Ucred)(unsafe.Pointer(&data[0])).Uid, true
			}
		}
		b = b[min(unix.CmsgSpace(len(data)), len(b)):]
	}
	return c
}

// Drops is the latest known value of the kernel's counter of datagrams that a socket dropped. It wraps.
type Drops uint32

// Update reads the counter from c, if it is there, and returns the number of datagrams dropped since the last value. A
// datagram carries the drops before its arrival: Ask may know more, and an older count is ignored.
func (d *Drops) Update(c *Control) uint64 {
	if !c.HasDrops {
		return 0
	}
	return d.reach(c.Drops)
}

func (d *Drops) reach(count uint32) uint64 {
	n := int32(count - uint32(*d))
	if n <= 0 {
		return 0
	}
	*d = Drops(count)
	return uint64(n)
}

// Read reads the counter from the kernel (SO_MEMINFO, since Linux 4.12), for a socket that receives no further
// datagrams. It returns the number of datagrams dropped since the last value, or 0 where the kernel does not report it.
func (d *Drops) Read(fd int) uint64 {
	count, ok := socketDrops(fd)
	if !ok {
		return 0
	}
	return d.reach(count)
}

// sendControl has the control messages of a send: UDP_SEGMENT first, then up to two for values that differ from the
// socket's.
type sendControl struct {
	mem             [12]uint64 // aligned for Cmsghdr
	end             int        // bytes of mem in use; 0: not prepared yet
	is6             bool
	hopLimit, class uint8
}

// segmentRoom is the size of UDP_SEGMENT.
var segmentRoom = unix.CmsgSpace(2)

// setHeader sets hop limit and traffic class; 0 means the value of the socket. It reports whether they changed.
func (c *sendControl) setHeader(is6 bool, hopLimit, class uint8) bool {
	if c.end != 0 && c.is6 == is6 && c.hopLimit == hopLimit && c.class == class {
		return false
	}
	c.is6, c.hopLimit, c.class = is6, hopLimit, class
	c.end = 0
	c.put(unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2)
	level, hop, tos := int32(unix.IPPROTO_IP), int32(unix.IP_TTL), int32(unix.IP_TOS)
	if is6 {
		level, hop, tos = unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT, unix.IPV6_TCLASS
	}
	if hopLimit != 0 {
		binary.NativeEndian.PutUint32(c.put(level, hop, 4), uint32(hopLimit))
	}
	if class != 0 {
		binary.NativeEndian.PutUint32(c.put(level, tos, 4), uint32(class))
	}
	return true
}

// put adds a control message and returns its data.
func (c *sendControl) put(level, kind int32, size int) []byte {
	b := c.bytes()[c.end:]
	h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(size))
	c.end += unix.CmsgSpace(size)
	return b[unix.CmsgLen(0):][:size]
}

func (c *sendControl) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&c.mem)), len(c.mem)*8)
}

// attach adds them to a message, which the kernel splits into packets of segment bytes; 0: it is one packet.
func (c *sendControl) attach(h *unix.Msghdr, segment int) {
	b := c.bytes()[:c.end]
	if segment > 0 {
		binary.NativeEndian.PutUint16(b[unix.CmsgLen(0):], uint16(segment))
	} else {
		b = b[segmentRoom:]
	}
	if len(b) == 0 {
		h.Control = nil
	} else {
		h.Control = &b[0]
	}
	h.SetControllen(len(b))
}

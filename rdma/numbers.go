package rdma

import "fmt"

// LID is a local identifier: the address of a port, or of a multicast group (MLID), within an InfiniBand subnet, in
// host byte order (IBTA 4.1.3). It is 0 on RoCE.
type LID uint16

// MLIDs are from MLIDMin to MLIDMax; 0xFFFF is the permissive LID, not an MLID (IBTA 4.1.3; kernel core/verbs.c,
// is_valid_mcast_lid).
const (
	MLIDMin LID = 0xC000
	MLIDMax LID = 0xFFFE
)

// IsMulticast reports whether the LID is in the range of MLIDs.
func (l LID) IsMulticast() bool { return l >= MLIDMin && l <= MLIDMax }

func (l LID) String() string { return fmt.Sprintf("0x%04x", uint16(l)) }

// QPN is a queue pair number, 24 bits (IBTA 3.5.1).
type QPN uint32

// MulticastQPN is the destination QPN of every multicast datagram (IBTA 10.5.1). Providers replace any other QPN by it
// for a multicast address.
const MulticastQPN QPN = 0xFFFFFF

func (q QPN) String() string { return fmt.Sprintf("0x%06x", uint32(q)) }

// QKey is the queue key that a datagram must contain to be received (IBTA 10.2.5). Setting a Q_Key with bit 31 needs
// privileges (kernel core/uverbs_cmd.c).
type QKey uint32

// UDPQKey is the Q_Key of all ids of PortSpaceUDP (RDMA_UDP_QKEY of rdma_cma.h).
const UDPQKey QKey = 0x01234567

func (q QKey) String() string { return fmt.Sprintf("0x%08x", uint32(q)) }

// PKey is a partition key: 15 bits identify the partition, and bit 15 is set for full members (IBTA 10.9.1).
type PKey uint16

// DefaultPKey is the default partition, full member; the only P_Key of RoCE.
const DefaultPKey PKey = 0xFFFF

// Base returns the partition without the membership bit.
func (p PKey) Base() PKey { return p & 0x7fff }

// IsFull reports whether the membership bit is set.
func (p PKey) IsFull() bool { return p&0x8000 != 0 }

// Matches reports whether a port with key p accepts a datagram with key q: both are of the same partition, and at least
// one is a full member (IBTA 10.9.3).
func (p PKey) Matches(q PKey) bool { return p.Base() == q.Base() && (p.IsFull() || q.IsFull()) }

func (p PKey) String() string { return fmt.Sprintf("0x%04x", uint16(p)) }

// MTU is the maximum payload of a datagram in bytes: 256, 512, 1024, 2048 or 4096 (IBTA 9.4; enum ibv_mtu).
type MTU int

// MTUFromCode returns the MTU for the code of MADs and of enum ibv_mtu, 1 to 5; 0 for any other code.
func MTUFromCode(code uint8) MTU {
	if code < 1 || code > 5 {
		return 0
	}
	return 128 << code
}

// Code returns the code of the MTU in MADs and in enum ibv_mtu; 0 if it has none.
func (m MTU) Code() uint8 {
	for c := uint8(1); c <= 5; c++ {
		if MTUFromCode(c) == m {
			return c
		}
	}
	return 0
}

// MTUFor returns the largest MTU of at most bytes, or 0 if all are larger.
func MTUFor(bytes int) MTU {
	for m := MTU(4096); m >= 256; m /= 2 {
		if int(m) <= bytes {
			return m
		}
	}
	return 0
}

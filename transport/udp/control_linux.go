//go:build !fanfare_plainudp

package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// dropped is how many datagrams the socket has dropped since the last call; count
// is the kernel's running number, which wraps.
func (s *socket) dropped(count uint32) uint32 {
	d := count - s.drops
	s.drops = count
	return d
}

// control is what the control messages of a received message say.
type control struct {
	segment  int    // bytes of each packet of a train, or 0
	drops    uint32 // datagrams that the socket has dropped so far
	hasDrops bool
}

// parseControl reads control messages (cmsg(3)); b is aligned for Cmsghdr.
func parseControl(b []byte) (c control) {
	for len(b) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&b[0]))
		size := int(h.Len)
		if size < unix.SizeofCmsghdr || size > len(b) {
			return c
		}
		data := b[unix.CmsgLen(0):size]
		switch {
		case h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO && len(data) >= 4:
			c.segment = int(*(*int32)(unsafe.Pointer(&data[0])))
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SO_RXQ_OVFL && len(data) >= 4:
			c.drops, c.hasDrops = *(*uint32)(unsafe.Pointer(&data[0])), true
		}
		b = b[min(unix.CmsgSpace(len(data)), len(b)):]
	}
	return c
}

package roce

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/rdma"
)

// sockaddr is a socket address as the kernel wants it.
type sockaddr struct {
	raw unix.RawSockaddrInet6 // large enough for IPv4 too
	len uint32
}

// toSockaddr converts an address; scope is the interface, for link-local ones.
func toSockaddr(ip netip.Addr, port uint16, scope int) (s sockaddr) {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], port)
	wire := *(*uint16)(unsafe.Pointer(&b))
	if ip.Is4() {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.raw))
		*v4 = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: wire, Addr: ip.As4()}
		s.len = unix.SizeofSockaddrInet4
		return s
	}
	s.raw = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: wire, Addr: ip.As16()}
	if ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast() || ip.IsInterfaceLocalMulticast() {
		s.raw.Scope_id = uint32(scope)
	}
	s.len = unix.SizeofSockaddrInet6
	return s
}

// from reads an address from the kernel.
func (s *sockaddr) from() (gid rdma.GID, port uint16) {
	wire := *(*[2]byte)(unsafe.Pointer(&s.raw.Port))
	port = binary.BigEndian.Uint16(wire[:])
	if s.raw.Family == unix.AF_INET {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.raw))
		gid = rdma.GID{10: 0xff, 11: 0xff}
		copy(gid[12:], v4.Addr[:])
		return gid, port
	}
	return s.raw.Addr, port
}

// named puts the name of a system call or option before its errno, which stays
// matchable.
func named(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// failed makes an error of package rdma, with the errno; a *PortInUseError stays
// one.
func failed(op string, err error) error {
	var inUse *PortInUseError
	var done *rdma.Error
	if errors.As(err, &inUse) || errors.As(err, &done) {
		return err
	}
	errno := syscall.EIO
	errors.As(err, &errno)
	return rdma.Errorf(op, errno, "%v", err)
}

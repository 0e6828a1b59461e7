package sys

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// routeWithin is the time limit for the kernel's answer, which usually comes at once.
const routeWithin = 5 * time.Second

// ErrNoRoute matches errors of RouteTo when the kernel reports that there is no route.
var ErrNoRoute = errors.New("no route")

// RouteTo returns the index of the interface of the host's route to an address, by all of its tables and rules
// (RTM_GETROUTE in rtnetlink(7)).
func RouteTo(to netip.Addr) (index int, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return 0, os.NewSyscallError("netlink socket", err)
	}
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(routeWithin.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := unix.Sendto(fd, routeRequest(to), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, os.NewSyscallError("sendto", err)
	}
	b := make([]byte, 8<<10)
	n, _, err := unix.Recvfrom(fd, b, 0)
	if err != nil {
		return 0, os.NewSyscallError("recvfrom", err)
	}
	return routeAnswer(b[:n])
}

// routeRequest returns the message that requests the route to an address.
func routeRequest(to netip.Addr) []byte {
	family, dst := byte(unix.AF_INET), to.AsSlice()
	if !to.Is4() {
		family = unix.AF_INET6
	}
	n := unix.SizeofNlMsghdr + unix.SizeofRtMsg + unix.SizeofRtAttr + len(dst)
	b := binary.NativeEndian.AppendUint32(nil, uint32(n))
	b = binary.NativeEndian.AppendUint16(b, unix.RTM_GETROUTE)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, unix.SizeofNlMsghdr-len(b))...)
	b = append(b, family, byte(8*len(dst)))
	b = append(b, make([]byte, unix.SizeofNlMsghdr+unix.SizeofRtMsg-len(b))...)
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofRtAttr+len(dst)))
	b = binary.NativeEndian.AppendUint16(b, unix.RTA_DST)
	return append(b, dst...)
}

// routeAnswer parses the interface from the kernel's answer.
func routeAnswer(b []byte) (index int, err error) {
	all, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return 0, os.NewSyscallError("netlink message", err)
	}
	for i := range all {
		m := &all[i]
		if m.Header.Type == unix.NLMSG_ERROR && len(m.Data) >= 4 {
			errno := unix.Errno(-int32(binary.NativeEndian.Uint32(m.Data)))
			err := os.NewSyscallError("RTM_GETROUTE", errno)
			if errno == unix.ENOMEM || errno == unix.ENOBUFS {
				return 0, err
			}
			return 0, fmt.Errorf("%w: %w", ErrNoRoute, err)
		}
		if m.Header.Type != unix.RTM_NEWROUTE {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			return 0, os.NewSyscallError("netlink attributes", err)
		}
		for _, a := range attrs {
			if a.Attr.Type == unix.RTA_OIF && len(a.Value) == 4 {
				return int(binary.NativeEndian.Uint32(a.Value)), nil
			}
		}
	}
	return 0, fmt.Errorf("%w: RTM_GETROUTE: the answer names no interface", ErrNoRoute)
}

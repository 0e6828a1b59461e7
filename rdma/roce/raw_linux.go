package roce

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// supported says whether this system can do it.
func supported() error { return nil }

// rawAllowed reports whether this process has CAP_NET_RAW here.
func rawAllowed() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

// openRaw makes the socket that gets IPv4 datagrams with their headers. It gets
// those of all groups that anybody on the host is a member of; what is not for
// the device is left out where it is read.
func openRaw(d *device) (*socket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return nil, named("raw socket", err)
	}
	s := &socket{fd: fd, kind: rawSocket, ipv4: true}
	setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, d.cfg.ReceiveBuffer)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1)
	err = first(
		filter(fd, []unix.SockFilter{
			{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH, K: 0},                         // X = length of the IP header
			{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: 2},                          // UDP destination port
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: rocev2.Port, Jt: 0, Jf: 1}, // ours?
			{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff},
			{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		}),
		named("IP_PKTINFO", unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)),
	)
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// dropAll makes a socket receive nothing.
func dropAll(fd int) error {
	return filter(fd, []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}})
}

// filter attaches a program of socket(7), SO_ATTACH_FILTER.
func filter(fd int, prog []unix.SockFilter) error {
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: (*unix.SockFilter)(unsafe.Pointer(&prog[0]))}
	return named("SO_ATTACH_FILTER", unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &fprog))
}

package roce

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma/internal/rocev2"
)

// supported returns nil: the package works on Linux.
func supported() error { return nil }

// canOpenRaw reports whether this process has CAP_NET_RAW. The error means that this is unknown.
func canOpenRaw() (allowed bool, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err == unix.EPERM || err == unix.EACCES {
		return false, nil
	}
	if err != nil {
		return false, failed("open RoCE", os.NewSyscallError("raw socket", err))
	}
	unix.Close(fd)
	return true, nil
}

// openRaw opens the socket that receives IPv4 datagrams with their headers. Without a filter the kernel would deliver
// those of all groups with a member on this host, and this process's own packets: selectRaw filters them.
func openRaw(d *device) (*socket, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
	if err != nil {
		return nil, os.NewSyscallError("raw socket", err)
	}
	s := &socket{fd: fd, kind: rawSocket, ipv4: true}
	sys.SetReceiveBuffer(fd, d.cfg.ReceiveBuffer)
	sys.CountDrops(fd)
	err = cmp.Or(d.selectRaw(fd), sys.Set(fd, "IP_PKTINFO", unix.IPPROTO_IP, unix.IP_PKTINFO, 1))
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// maxSelected is the maximum number of groups in the filter of selectRaw. Each needs a comparison for every datagram of
// the host, and a part of net.core.optmem_max.
const maxSelected = 128

// selectRaw makes the raw socket receive only datagrams to port 4791 of the device's addresses and of the groups of
// which it is a member, or of all groups if they are many. Datagrams of the same group from another interface are
// dropped after reading. The caller holds mu.
func (d *device) selectRaw(fd int) error {
	var own, groups []netip.Addr
	for _, a := range d.link.addrs {
		if a.Is4() && d.sockets.unicast[a] != nil {
			own = append(own, a)
		}
	}
	for g := range d.sockets.groups {
		if g.Is4() {
			groups = append(groups, g)
		}
	}
	if len(groups) <= maxSelected && sys.SetFilter(fd, selection(own, groups, false)) == nil {
		return nil
	}
	return sys.SetFilter(fd, selection(own, nil, true))
}

// selection returns a BPF program for a raw socket, where packets begin with the IP header.
func selection(own, groups []netip.Addr, allGroups bool) []bpf.Instruction {
	accept, reject := bpf.RetConstant{Val: 0xffff}, bpf.RetConstant{} // bytes to keep
	prog := []bpf.Instruction{
		bpf.LoadMemShift{Off: 0},          // X = length of the IP header
		bpf.LoadIndirect{Off: 2, Size: 2}, // UDP destination port
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: rocev2.Port, SkipTrue: 1},
		reject,
		bpf.LoadAbsolute{Off: 16, Size: 4}, // IP destination
	}
	for _, a := range slices.Concat(own, groups) {
		b := a.As4()
		prog = append(prog, bpf.JumpIf{Cond: bpf.JumpEqual, Val: binary.BigEndian.Uint32(b[:]), SkipFalse: 1}, accept)
	}
	if allGroups {
		const classD, classE = 0xe0000000, 0xf0000000
		prog = append(prog,
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: classE, SkipTrue: 2},
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: classD, SkipFalse: 1}, accept)
	}
	return append(prog, reject)
}

// dropAll makes a socket receive nothing.
func dropAll(fd int) error { return sys.SetFilter(fd, []bpf.Instruction{bpf.RetConstant{}}) }

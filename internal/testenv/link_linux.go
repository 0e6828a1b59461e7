package testenv

import (
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The interface plumbing, by ioctl and netlink so that no tool is needed
// (netdevice(7), rtnetlink(7)). It is for use in Namespace.

// LinkUp takes an interface up.
func LinkUp(t *testing.T, name string) {
	t.Helper()
	setFlags(t, name, func(f uint16) uint16 { return f | unix.IFF_UP })
}

// LinkDown takes an interface down.
func LinkDown(t *testing.T, name string) {
	t.Helper()
	setFlags(t, name, func(f uint16) uint16 { return f &^ unix.IFF_UP })
}

// LinkMulticast gives an interface the flag MULTICAST, or takes it away.
func LinkMulticast(t *testing.T, name string, on bool) {
	t.Helper()
	setFlags(t, name, func(f uint16) uint16 {
		if on {
			return f | unix.IFF_MULTICAST
		}
		return f &^ unix.IFF_MULTICAST
	})
}

func setFlags(t *testing.T, name string, change func(uint16) uint16) {
	t.Helper()
	flags := ifreq(t, name, unix.SIOCGIFFLAGS, nil).Uint16()
	ifreq(t, name, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) { r.SetUint16(change(flags)) })
}

// SetMTU sets the MTU of an interface, in bytes.
func SetMTU(t *testing.T, name string, mtu uint32) {
	t.Helper()
	ifreq(t, name, unix.SIOCSIFMTU, func(r *unix.Ifreq) { r.SetUint32(mtu) })
}

func ifreq(t *testing.T, name string, request uint, set func(*unix.Ifreq)) *unix.Ifreq {
	t.Helper()
	fd := ioctlSocket(t, unix.AF_INET)
	defer unix.Close(fd)
	r, err := unix.NewIfreq(name)
	if err != nil {
		t.Fatal(err)
	}
	if set != nil {
		set(r)
	}
	if err := unix.IoctlIfreq(fd, request, r); err != nil {
		t.Fatalf("interface %s, request %#x: %v", name, request, err)
	}
	return r
}

func ioctlSocket(t *testing.T, family int) int {
	t.Helper()
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// LinkIndex is the index of an interface.
func LinkIndex(t *testing.T, name string) int {
	t.Helper()
	return int(ifreq(t, name, unix.SIOCGIFINDEX, nil).Uint32())
}

// RouteIPv6Multicast adds a route for multicast, which the kernel gives to every
// interface but loopback. There it must be a local route: others over loopback
// are taken for blackholes (fib6_is_reject in net/ipv6/route.c).
func RouteIPv6Multicast(t *testing.T, name string) {
	t.Helper()
	fd := ioctlSocket(t, unix.AF_INET6)
	defer unix.Close(fd)
	msg := struct { // struct in6_rtmsg, linux/ipv6_route.h
		dst, src, gateway [16]byte
		kind              uint32
		dstLen, srcLen    uint16
		metric            uint32
		info              uintptr
		flags             uint32
		ifindex           int32
	}{dst: [16]byte{0xff}, dstLen: 8, metric: 256, flags: unix.RTF_UP | unix.RTF_LOCAL, ifindex: int32(LinkIndex(t, name))}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCADDRT, uintptr(unsafe.Pointer(&msg))); errno != 0 && errno != unix.EEXIST {
		t.Fatalf("route ff00::/8 to %s: %v", name, errno)
	}
}

// AddVeth makes a pair of interfaces that are each other's wire (veth(4)). index
// is the one that the first gets; 0: any. It skips the test where the kernel has
// no such pairs.
func AddVeth(t *testing.T, name, peer string, index int) {
	t.Helper()
	const infoPeer = 1 // VETH_INFO_PEER, linux/veth.h
	first := unix.IfInfomsg{Index: int32(index)}
	ifinfo := make([]byte, unix.SizeofIfInfomsg)
	err := request(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, bytesOf(&first),
		attr(unix.IFLA_IFNAME, text(name)),
		attr(unix.IFLA_LINKINFO,
			attr(unix.IFLA_INFO_KIND, []byte("veth")),
			attr(unix.IFLA_INFO_DATA, attr(infoPeer, ifinfo, attr(unix.IFLA_IFNAME, text(peer))))))
	if err != nil {
		Skip(t, "this kernel makes no pairs of interfaces: %v", err)
	}
}

// DelLink deletes an interface, and with one of a pair the other.
func DelLink(t *testing.T, name string) {
	t.Helper()
	m := unix.IfInfomsg{Index: int32(LinkIndex(t, name))}
	if err := request(unix.RTM_DELLINK, 0, bytesOf(&m)); err != nil {
		t.Fatalf("delete %s: %v", name, err)
	}
}

// MoveLink moves an interface to the network namespace of a process.
func MoveLink(t *testing.T, name string, pid int) {
	t.Helper()
	m := unix.IfInfomsg{Index: int32(LinkIndex(t, name))}
	to := uint32(pid)
	if err := request(unix.RTM_SETLINK, 0, bytesOf(&m), attr(unix.IFLA_NET_NS_PID, bytesOf(&to))); err != nil {
		t.Fatalf("move %s to process %d: %v", name, pid, err)
	}
}

// AddAddr gives an interface an address, which can be used at once: IPv6 does
// not ask the neighbours whether they have it.
func AddAddr(t *testing.T, name, prefix string) {
	t.Helper()
	setAddr(t, unix.RTM_NEWADDR, name, prefix)
}

// AwaitAddrs waits until the IPv6 addresses of an interface that is up can be
// bound, among them the one that the kernel makes.
func AwaitAddrs(t *testing.T, name string) {
	t.Helper()
	for range 2000 {
		if addrsUsable(t, name) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("the addresses of %s do not become usable", name)
}

func addrsUsable(t *testing.T, name string) bool {
	t.Helper()
	ifc, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := ifc.Addrs()
	if err != nil {
		t.Fatal(err)
	}
	bound := 0
	for _, a := range addrs {
		ip := a.(*net.IPNet).IP
		if ip.To4() != nil {
			continue
		}
		// By index: package net remembers for a minute which one a name had.
		c, err := net.ListenUDP("udp6", &net.UDPAddr{IP: ip, Zone: strconv.Itoa(ifc.Index)})
		if err != nil {
			return false
		}
		c.Close()
		bound++
	}
	return bound > 0
}

// DelAddr takes an address away from an interface.
func DelAddr(t *testing.T, name, prefix string) {
	t.Helper()
	setAddr(t, unix.RTM_DELADDR, name, prefix)
}

func setAddr(t *testing.T, kind uint16, name, prefix string) {
	t.Helper()
	p := netip.MustParsePrefix(prefix)
	m := unix.IfAddrmsg{Family: unix.AF_INET, Prefixlen: uint8(p.Bits()), Index: uint32(LinkIndex(t, name))}
	if p.Addr().Is6() {
		m.Family, m.Flags = unix.AF_INET6, unix.IFA_F_NODAD
	}
	if err := request(kind, 0, bytesOf(&m), attr(unix.IFA_LOCAL, p.Addr().AsSlice()), attr(unix.IFA_ADDRESS, p.Addr().AsSlice())); err != nil {
		t.Fatalf("address %s of %s, request %d: %v", prefix, name, kind, err)
	}
}

// request sends one message of rtnetlink and returns the kernel's answer to it.
func request(kind, flags uint16, parts ...[]byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	msg := make([]byte, unix.SizeofNlMsghdr)
	for _, p := range parts {
		msg = append(msg, p...)
	}
	h := (*unix.NlMsghdr)(unsafe.Pointer(&msg[0]))
	h.Len, h.Type, h.Flags = uint32(len(msg)), kind, unix.NLM_F_REQUEST|unix.NLM_F_ACK|flags
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	reply := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, reply, 0)
	if err != nil {
		return err
	}
	// struct nlmsgerr: the errno, negative, or 0.
	if n >= unix.SizeofNlMsghdr+4 {
		if errno := *(*int32)(unsafe.Pointer(&reply[unix.SizeofNlMsghdr])); errno != 0 {
			return syscall.Errno(-errno)
		}
	}
	return nil
}

// attr encodes an attribute of rtnetlink.
func attr(kind uint16, parts ...[]byte) []byte {
	b := make([]byte, unix.SizeofRtAttr)
	for _, p := range parts {
		b = append(b, p...)
	}
	h := (*unix.RtAttr)(unsafe.Pointer(&b[0]))
	h.Len, h.Type = uint16(len(b)), kind
	return append(b, make([]byte, -len(b)&3)...)
}

func text(s string) []byte { return append([]byte(s), 0) }

func bytesOf[T any](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

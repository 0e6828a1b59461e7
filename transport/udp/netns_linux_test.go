package udp_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/transporttest"
	"github.com/fanfaremq/fanfare/transport/udp"
)

// inNamespace is set in the environment of this test binary when it runs itself
// again in a network namespace.
const inNamespace = "FANFARE_TEST_NAMESPACE"

// TestNamespace runs what loopback cannot show in a network namespace of its
// own, which goes with the process: IPv6 multicast, other interfaces, their
// choice, an MTU that shrinks, a limit on memberships.
func TestNamespace(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		linkUp(t, "lo")
		t.Run("DefaultInterfaceIsLoopback", testDefaultIsLoopback)
		t.Run("IPv6", testIPv6)
		if !plainPath { // which has no GSO
			t.Run("GSORefused", testGSORefused)
		}
		t.Run("GroupLimit", testGroupLimit)
		t.Run("Interfaces", testInterfaces) // last: it adds some
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestNamespace$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Start()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EINVAL) {
		skip(t, fmt.Errorf("this system lets user %d make no network namespace: %w", os.Getuid(), err))
	}
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil || strings.Contains(out.String(), "--- SKIP") {
		for line := range strings.Lines(out.String()) {
			if s := strings.TrimSpace(line); !strings.HasPrefix(s, "=== ") && !strings.HasPrefix(s, "--- PASS") {
				t.Log(strings.TrimRight(line, "\n"))
			}
		}
	}
	if err != nil {
		t.Fatalf("in a namespace of its own: %v", err)
	}
}

// With nothing else there, the default is loopback, and it works.
func testDefaultIsLoopback(t *testing.T) {
	a, b := open(t, udp.Config{}), open(t, udp.Config{})
	defer end(a)
	defer end(b)
	if a.Interface() != "lo" {
		t.Fatalf("the default interface is %s", a.Interface())
	}
	if !hears(t, a, b, "hello") {
		t.Error("packets do not arrive")
	}
}

func testIPv6(t *testing.T) {
	routeIPv6Multicast(t, "lo")
	conformance(t, func(t testing.TB) udp.Config {
		return udp.Config{Interface: "lo", Range: netip.MustParsePrefix("ff15::20:0/112"), Port: freePort(t, "[::1]:0"), Groups: 4}
	})
	a := open(t, udp.Config{Range: netip.MustParsePrefix("ff15::20:0/112")})
	defer end(a)
	if got := a.GroupAddress(1); got != "[ff15::20:1]:7400" || a.Interface() != "lo" {
		t.Errorf("group 1 is %s on %s", got, a.Interface())
	}
}

// When the path cannot carry trains any more, they go as single packets, from
// then on, and nothing is lost.
func testGSORefused(t *testing.T) {
	cfg := loopback(t)
	a, b := open(t, cfg), open(t, cfg)
	defer end(a)
	defer end(b)
	if !a.Capabilities().GSO || !a.Capabilities().EqualTrains {
		t.Fatal("no GSO to begin with")
	}
	setMTU(t, "lo", 1000)
	defer setMTU(t, "lo", 65536)
	if err := b.Join(0); err != nil {
		t.Fatal(err)
	}
	s, err := a.NewSender(0)
	if err != nil {
		t.Fatal(err)
	}
	const size, count = 1472, 20
	out := &transport.Outbound{Data: make([]byte, size*count), Stride: size, Count: count}
	for i := range count {
		out.Data[i*size] = byte(i)
		out.Lens = append(out.Lens, size)
	}
	for round := range 3 {
		if n, err := s.Send(out); n != count || err != nil {
			t.Fatalf("Send = %d, %v", n, err)
		}
		got := receive(t, b, count)
		for i, p := range got {
			if len(p) != size || p[0] != byte(i) {
				t.Fatalf("round %d: packet %d has %d bytes and number %d", round, i, len(p), p[0])
			}
		}
	}
	if c, st := a.Capabilities(), a.Stats(); c.GSO || c.EqualTrains || st.GSORefused != 1 || st.SendErrors != 0 || st.PacketsSent != 3*count {
		t.Errorf("after a refusal: %+v %+v", c, st)
	}
}

// skip leaves a test out for want of a privilege or a kernel's feature. Where
// everything is there, FANFARE_MUST_RUN makes it a failure.
func skip(t *testing.T, why error) {
	t.Helper()
	if os.Getenv("FANFARE_MUST_RUN") != "" {
		t.Fatalf("FANFARE_MUST_RUN is set, but: %v", why)
	}
	t.Skip(why)
}

// The kernel's limit on memberships is told as an event that matches both our
// error and the kernel's, and the other groups go on.
func testGroupLimit(t *testing.T) {
	const limit = "/proc/sys/net/ipv4/igmp_max_memberships"
	old, err := os.ReadFile(limit)
	if err != nil {
		skip(t, err)
	}
	cfg := loopback(t)
	a, b := open(t, cfg), open(t, cfg)
	defer end(a)
	defer end(b)
	if !hears(t, a, b, "before") {
		t.Fatal("packets do not arrive")
	}
	if err := os.WriteFile(limit, []byte("0"), 0o644); err != nil {
		skip(t, err)
	}
	defer os.WriteFile(limit, old, 0o644)
	if err := b.Join(1); err != nil {
		t.Fatal(err)
	}
	batch := transport.NewBatch(4)
	if err := b.Poll(batch); err != nil || len(batch.Events) != 1 {
		t.Fatalf("events %+v, %v", batch.Events, err)
	}
	ev := batch.Events[0]
	if ev.Group != 1 || ev.State != transport.Failed || !errors.Is(ev.Err, transport.ErrGroupLimit) || !errors.Is(ev.Err, unix.ENOBUFS) {
		t.Errorf("event %+v", ev)
	}
	if st := b.Stats(); st.JoinsFailed != 1 || st.Joins != 1 {
		t.Errorf("counters %+v", st)
	}
	if !hears(t, a, b, "after") {
		t.Error("the group joined before is deaf")
	}
}

// Beside loopback there are two more interfaces with the same groups.
func testInterfaces(t *testing.T) {
	// New IPv6 addresses are usable at once, without asking the neighbours.
	for _, name := range []string{"all", "default"} {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/accept_dad", []byte("0"), 0o644); err != nil {
			skip(t, err)
		}
	}
	for i, name := range []string{"left", "right"} {
		if err := addVeth(name, name+"-end"); err != nil {
			skip(t, fmt.Errorf("this kernel makes no pairs of interfaces: %w", err))
		}
		setAddr(t, name, [4]byte{10, 77, byte(i), 1})
		linkUp(t, name)
		linkUp(t, name+"-end")
	}
	for family, groups := range map[string]netip.Prefix{
		"IPv4": netip.MustParsePrefix("239.20.0.0/24"), "IPv6": netip.MustParsePrefix("ff15::20:0/112"), "link-local": netip.MustParsePrefix("ff12::20:0/112"),
	} {
		t.Run(family, func(t *testing.T) {
			cfg := udp.Config{Range: groups, Port: 7411, Groups: 4}
			with := func(name string, change func(*udp.Config)) *udp.Transport {
				c := cfg
				c.Interface = name
				if change != nil {
					change(&c)
				}
				tr := open(t, c)
				t.Cleanup(func() { end(tr) })
				return tr
			}
			// All four have an IPv6 address, and get their routes in the order in
			// which the kernel finds that they are up.
			if tr := with("", nil); tr.Interface() == "lo" || groups.Addr().Is4() && tr.Interface() != "left" {
				t.Errorf("the default interface is %s, want left, or with IPv6 any beside loopback", tr.Interface())
			}
			left, right := with("left", nil), with("right", nil)
			if mtu := 1500 - map[bool]int{true: 28, false: 48}[groups.Addr().Is4()]; left.Capabilities().PacketSize != mtu {
				t.Errorf("packets have %d bytes, want %d", left.Capabilities().PacketSize, mtu)
			}
			for _, tr := range []*udp.Transport{left, right} {
				if err := tr.Join(0); err != nil {
					t.Fatal(err)
				}
			}
			if !hears(t, with("left", nil), left, "on the left") || !hears(t, with("right", nil), right, "on the right") {
				t.Fatal("packets do not arrive")
			}
			if got := receive(t, left, 0); len(got) != 0 {
				t.Errorf("left has heard %q", got)
			}
			// Without loopback this host hears nothing; the one after it shows that
			// there was nothing to come.
			silent := with("left", func(c *udp.Config) { c.NoLoopback = true })
			send(t, silent, "nobody here")
			if !hears(t, with("left", nil), left, "everybody here") {
				t.Error("a packet that should stay away from this host came, or none")
			}
			transporttest.Run(t, func(t *testing.T) transporttest.Fabric {
				return transporttest.Fabric{Open: func(t testing.TB, o transporttest.Options) transport.Transport {
					c := cfg
					c.Interface, c.Port, c.Peers = "left", 7412, o.Peers
					if !plainPath {
						c.ReceiveBuffer = o.Queue * 1024
					}
					return open(t, c)
				}}
			})
		})
	}
}

// send sends one packet to group 0.
func send(t *testing.T, from *udp.Transport, text string) {
	t.Helper()
	s, err := from.NewSender(0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n, err := s.Send(&transport.Outbound{Data: []byte(text), Stride: len(text), Count: 1, Lens: []uint16{uint16(len(text))}}); n != 1 {
		t.Fatal(err)
	}
}

// hears sends text on group 0 and reports whether it is the next to arrive.
func hears(t *testing.T, from, to *udp.Transport, text string) bool {
	t.Helper()
	if err := to.Join(0); err != nil {
		t.Fatal(err)
	}
	send(t, from, text)
	got := receive(t, to, 1)
	return len(got) == 1 && string(got[0]) == text
}

// receive polls until count packets have come, and then what else there is.
func receive(t *testing.T, tr *udp.Transport, count int) (got [][]byte) {
	t.Helper()
	b := transport.NewBatch(16)
	for tries := 0; tries < 2000; tries++ {
		if err := tr.Poll(b); err != nil {
			t.Fatal(err)
		}
		for i := range b.Trains {
			for j := range b.Trains[i].Count() {
				got = append(got, bytes.Clone(b.Trains[i].Packet(j)))
			}
			tr.Release(&b.Trains[i])
		}
		if len(b.Trains) == 0 && len(got) >= count {
			return got
		}
		if len(b.Trains) == 0 {
			tr.Wait(5e6)
		}
	}
	return got
}

// The interface plumbing, by ioctl and netlink so that no tool is needed
// (netdevice(7), rtnetlink(7)).

func ioctlSocket(t *testing.T, family int) int {
	t.Helper()
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
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

func linkUp(t *testing.T, name string) {
	flags := ifreq(t, name, unix.SIOCGIFFLAGS, nil).Uint16()
	ifreq(t, name, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) { r.SetUint16(flags | unix.IFF_UP) })
}

func setMTU(t *testing.T, name string, mtu uint32) {
	ifreq(t, name, unix.SIOCSIFMTU, func(r *unix.Ifreq) { r.SetUint32(mtu) })
}

func setAddr(t *testing.T, name string, addr [4]byte) {
	ifreq(t, name, unix.SIOCSIFADDR, func(r *unix.Ifreq) {
		if err := r.SetInet4Addr(addr[:]); err != nil {
			t.Fatal(err)
		}
	})
}

// routeIPv6Multicast adds a route for multicast, which the kernel gives to every
// interface but loopback. There it must be a local route: others over loopback
// are taken for blackholes (fib6_is_reject in net/ipv6/route.c).
func routeIPv6Multicast(t *testing.T, name string) {
	t.Helper()
	index := ifreq(t, name, unix.SIOCGIFINDEX, nil).Uint32()
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
	}{dst: [16]byte{0xff}, dstLen: 8, metric: 256, flags: unix.RTF_UP | unix.RTF_LOCAL, ifindex: int32(index)}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCADDRT, uintptr(unsafe.Pointer(&msg))); errno != 0 && errno != unix.EEXIST {
		t.Fatalf("route ff00::/8 to %s: %v", name, errno)
	}
}

// addVeth makes a pair of interfaces that are each other's wire (veth(4)).
func addVeth(name, peer string) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	attr := func(kind uint16, parts ...[]byte) []byte {
		b := make([]byte, 4)
		for _, p := range parts {
			b = append(b, p...)
		}
		*(*uint16)(unsafe.Pointer(&b[0])) = uint16(len(b))
		*(*uint16)(unsafe.Pointer(&b[2])) = kind
		return append(b, make([]byte, -len(b)&3)...)
	}
	const infoPeer = 1 // VETH_INFO_PEER, linux/veth.h
	ifinfo := make([]byte, unix.SizeofIfInfomsg)
	named := func(name string) []byte { return attr(unix.IFLA_IFNAME, append([]byte(name), 0)) }
	body := append(append([]byte(nil), ifinfo...), named(name)...)
	body = append(body, attr(unix.IFLA_LINKINFO,
		attr(unix.IFLA_INFO_KIND, []byte("veth")),
		attr(unix.IFLA_INFO_DATA, attr(infoPeer, ifinfo, named(peer))))...)
	msg := make([]byte, unix.SizeofNlMsghdr, unix.SizeofNlMsghdr+len(body))
	h := (*unix.NlMsghdr)(unsafe.Pointer(&msg[0]))
	h.Len = uint32(unix.SizeofNlMsghdr + len(body))
	h.Type = unix.RTM_NEWLINK
	h.Flags = unix.NLM_F_REQUEST | unix.NLM_F_ACK | unix.NLM_F_CREATE | unix.NLM_F_EXCL
	msg = append(msg, body...)
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

//go:build linux

package roce

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/rdmatest"
)

// TestConformanceOnWire is TestConformance with hosts on separate interfaces that are connected to a bridge, so that
// IGMP can be observed.
func TestConformanceOnWire(t *testing.T) {
	if os.Getenv(isolated) == "" {
		testenv.Skip(t, "this system cannot make a network namespace")
	}
	// Statements have two hosts, one has three.
	const hosts = 3
	at := func(i int) (string, netip.Addr) {
		return fmt.Sprintf("host%d", i), netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)})
	}
	newBridge(t, "switch")
	for i := range hosts {
		link, ip := at(i)
		port := fmt.Sprintf("port%d", i)
		testenv.AddVeth(t, link, port, 0)
		defer testenv.DelLink(t, link)
		testenv.LinkUp(t, link)
		testenv.LinkUp(t, port)
		testenv.AddAddr(t, link, ip.String()+"/24")
		plug(t, "switch", port)
		// All hosts are the same host for the kernel, which by default drops received packets with one of its own addresses
		// as the source.
		sysctl(t, link, "accept_local", "1")
		sysctl(t, link, "rp_filter", "0")
	}
	sysctl(t, "all", "rp_filter", "0")
	for _, check := range []Check{CheckUDP, CheckFull} {
		if check == CheckUDP && testing.Short() {
			continue // it runs in TestConformance
		}
		name := fmt.Sprintf("roce on a bridge check=%v", check)
		t.Run(name, func(t *testing.T) {
			if check == CheckFull && !rawAllowed() {
				testenv.Skip(t, "CAP_NET_RAW is missing")
			}
			s := rdmatest.Run(t, rdmatest.Target{
				Name: name, Tags: rdmatest.RoCE | rdmatest.Wire, NotMet: notMet, Wire: wireTests(check),
				Open: func(t testing.TB, o rdmatest.Options) (*rdmatest.Net, error) {
					if o.Hosts > hosts {
						return nil, fmt.Errorf("%d hosts requested, but there are %d", o.Hosts, hosts)
					}
					n, err := openNet(t, check, o, at)
					if err != nil {
						return nil, err
					}
					var links []string
					for i := range o.Hosts {
						link, _ := at(i)
						links = append(links, link)
					}
					n.Trace = traceIGMP(t, links)
					return n, nil
				},
			})
			wantAll(t, &s)
			for _, reason := range s.Reasons {
				if strings.Contains(reason, "cannot see") {
					t.Errorf("IGMP can be observed here, but: %s", reason)
				}
			}
		})
	}
}

// traceIGMP returns a function that returns the joins and leaves reported on each host's interface since its last call,
// each once, although the kernel repeats them.
func traceIGMP(t testing.TB, links []string) func() []rdmatest.Record {
	t.Helper()
	var fds []int
	for _, link := range links {
		ifc, err := net.InterfaceByName(link)
		must(t, "interface", err)
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		must(t, "packet socket", err)
		t.Cleanup(func() { unix.Close(fd) })
		const etherTypeAll = 0x0300 // in network byte order; other protocols do not include sent packets
		must(t, "bind", unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: etherTypeAll, Ifindex: ifc.Index}))
		fds = append(fds, fd)
	}
	type groupAt struct {
		host  int
		group [4]byte
	}
	member := map[groupAt]bool{}
	return func() (list []rdmatest.Record) {
		// A change is reported at the next tick of the kernel's clock.
		time.Sleep(100 * time.Millisecond)
		b := make([]byte, 2048)
		for host, fd := range fds {
			for {
				n, from, err := unix.Recvfrom(fd, b, 0)
				if err != nil {
					break
				}
				if l, ok := from.(*unix.SockaddrLinklayer); !ok || l.Pkttype != unix.PACKET_OUTGOING || n < 20 || b[0]>>4 != 4 || b[9] != unix.IPPROTO_IGMP {
					continue
				}
				for g, joins := range igmpChanges(b[int(b[0]&0xf)*4 : n]) {
					at := groupAt{host, g}
					if member[at] == joins {
						continue
					}
					member[at] = joins
					kind := rdmatest.IGMPLeave
					if joins {
						kind = rdmatest.IGMPReport
					}
					list = append(list, rdmatest.Record{Kind: kind, Host: host, MGID: rdma.GIDFromIP(netip.AddrFrom4(g))})
				}
			}
		}
		return list
	}
}

// igmpChanges returns the groups of an IGMPv3 membership report (RFC 3376 §4.2), and whether it joins them.
func igmpChanges(msg []byte) map[[4]byte]bool {
	const report, toInclude, toExclude = 0x22, 3, 4
	groups := map[[4]byte]bool{}
	if len(msg) < 8 || msg[0] != report {
		return groups
	}
	for r := msg[8:]; len(r) >= 8; r = r[8:] {
		if r[0] == toInclude || r[0] == toExclude {
			groups[[4]byte(r[4:])] = r[0] == toExclude
		}
	}
	return groups
}

// newBridge makes a bridge, and deletes it at the end of the test (brctl(8); linux/sockios.h).
func newBridge(t *testing.T, name string) {
	t.Helper()
	call := func(request uintptr) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		must(t, "socket", err)
		defer unix.Close(fd)
		text, err := unix.ByteSliceFromString(name)
		must(t, "name", err)
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&text[0]))); errno != 0 {
			return errno
		}
		return nil
	}
	const addBridge, delBridge = 0x89a0, 0x89a1
	if err := call(addBridge); err != nil {
		testenv.Skip(t, "this kernel cannot make a bridge: %v", err)
	}
	testenv.LinkUp(t, name)
	t.Cleanup(func() {
		testenv.LinkDown(t, name)
		if err := call(delBridge); err != nil {
			t.Errorf("the bridge cannot be deleted: %v", err)
		}
	})
}

// plug makes an interface a port of a bridge.
func plug(t *testing.T, bridge, port string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, "socket", err)
	defer unix.Close(fd)
	r, err := unix.NewIfreq(bridge)
	must(t, "bridge", err)
	r.SetUint32(uint32(testenv.LinkIndex(t, port)))
	const addPort = 0x89a2
	must(t, "add port "+port, unix.IoctlIfreq(fd, addPort, r))
}

func sysctl(t *testing.T, link, name, value string) {
	t.Helper()
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+link+"/"+name, []byte(value), 0); err != nil {
		testenv.Skip(t, "cannot set %s of %s: %v", name, link, err)
	}
}

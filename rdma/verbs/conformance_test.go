//go:build rdma && linux && cgo

package verbs

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/rdmatest"
)

// ownKernel: the kernel is only for this test, which may remove devices and change interfaces. The lab's VMs set it.
var ownKernel = flag.Bool("verbs.ownkernel", false, "remove devices and change interfaces of this host")

// settleTime is the maximum time for a datagram or an event, without load, in an emulated VM.
const settleTime = 10 * time.Millisecond

// testHost is an active port with an IPv4 address.
type testHost struct {
	device, netdev string
	addr           rdma.Addr
}

// testHosts returns the ports of this host. The suite treats each as a separate host. To reach each other they need
// routes that a host usually does not have, see test/lab. Without any port the test is skipped, or fails if nothing may
// be skipped.
func testHosts(t testing.TB) []testHost {
	t.Helper()
	p, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	names, err := p.Devices()
	if err != nil || len(names) == 0 {
		if *ownKernel || os.Getenv("FANFARE_MUST_RUN") != "" {
			t.Fatalf("no RDMA device: %v", err)
		}
		t.Skipf("no RDMA device: %v; the lab has one: test/lab/run test -run Verbs", err)
	}
	var hosts []testHost
	for _, name := range names {
		d, err := p.OpenDevice(name)
		if err != nil {
			t.Fatal(err)
		}
		a, err := d.Port(1)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for _, ip := range a.Addrs {
			if ip.Is4() && a.State == rdma.PortActive {
				hosts = append(hosts, testHost{name, a.NetDev, rdma.IPAddr(ip)})
				break
			}
		}
	}
	return hosts
}

func TestConformance(t *testing.T) {
	hosts := testHosts(t)
	notMet := maps.Clone(notMet)
	if *ownKernel {
		// S021 is met if the address belongs to an interface without RDMA.
		plainInterface(t, "192.0.2.1/24")
		delete(notMet, 21)
	}
	s := rdmatest.Run(t, rdmatest.Target{
		Name: "verbs " + kernelName(), Tags: rdmatest.RoCE | rdmatest.Kernel | rdmatest.Interop,
		NotMet:  notMet,
		Interop: map[int]func(t *testing.T){121: func(t *testing.T) { testToMckey(t, hosts) }, 122: func(t *testing.T) { testFromMckey(t, hosts, false) }, 123: func(t *testing.T) { testFromMckey(t, hosts, true) }},
		Open:    func(t testing.TB, o rdmatest.Options) (*rdmatest.Net, error) { return openNet(t, hosts, o) },
	})
	total := 0
	for _, n := range s.Counts {
		total += n
	}
	if total != 125 {
		t.Errorf("%d statements have an outcome, want 125", total)
	}
}

func kernelName() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "linux"
	}
	return "linux " + unix.ByteSliceToString(u.Release[:])
}

func openNet(t testing.TB, hosts []testHost, o rdmatest.Options) (*rdmatest.Net, error) {
	switch {
	case o.Hosts > len(hosts):
		return nil, fmt.Errorf("%w: %d ports are needed, but there are %d", rdmatest.ErrCannot, o.Hosts, len(hosts))
	case o.NoMulticast || o.MaxMcastQPAttach != 0:
		return nil, fmt.Errorf("%w: the limits of a real device cannot be changed", rdmatest.ErrCannot)
	}
	n := &rdmatest.Net{
		Settle:     func() { time.Sleep(settleTime) },
		Advance:    time.Sleep,
		Privileged: hasNetRaw(),
	}
	p, err := Open()
	if err != nil {
		return nil, err
	}
	for _, h := range hosts[:o.Hosts] {
		n.Hosts = append(n.Hosts, rdmatest.Host{Provider: p, Addr: h.addr})
	}
	if !*ownKernel {
		return n, nil
	}
	trace := newIGMPTrace(t, hosts[:o.Hosts])
	n.Trace = trace.take
	n.SetNetDevMTU = func(host, mtu int) {
		command(t, "ip", "link", "set", hosts[host].netdev, "mtu", fmt.Sprint(mtu))
		t.Cleanup(func() { command(t, "ip", "link", "set", hosts[host].netdev, "mtu", "1500") })
	}
	// A removal ends when no process has the device open (rxe does not support disassociation). The statement's objects
	// are closed before.
	var restore []func()
	t.Cleanup(func() {
		for _, f := range restore {
			f()
		}
	})
	n.RemoveDevice = func(host int) {
		h := hosts[host]
		removed := make(chan struct{})
		go func() {
			defer close(removed)
			command(t, "rdma", "link", "delete", h.device)
		}()
		restore = append(restore, func() {
			<-removed
			command(t, "rdma", "link", "add", h.device, "type", "rxe", "netdev", h.netdev)
		})
	}
	return n, nil
}

// plainInterface makes an interface without RDMA.
func plainInterface(t testing.TB, addr string) {
	t.Helper()
	command(t, "ip", "link", "add", "plain0", "type", "dummy")
	t.Cleanup(func() { command(t, "ip", "link", "del", "plain0") })
	command(t, "ip", "addr", "add", addr, "dev", "plain0")
	command(t, "ip", "link", "set", "plain0", "up")
}

// command runs a program that changes this host.
func command(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Errorf("the command %s %s failed: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// hasNetRaw reports whether Q_Keys with bit 31 may be used.
func hasNetRaw() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&hdr, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_NET_RAW) != 0
}

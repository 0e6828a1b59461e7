package peer

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

// Two hosts, which are network namespaces, connected by a wire through this process, which
// manipulates Ethernet frames as the test wants.

// faults are the faults of one direction of the wire.
type faults struct {
	loss, copies, reorder float64       // of frames with probes
	mtu                   int           // larger packets are dropped; 0: none
	noMulticast           bool          // frames to groups are dropped
	stopsAfter            time.Duration // dropping of frames to groups begins, as by a switch that has removed members
	hops                  byte          // subtracted from the TTL
	multicastLoss         float64       // of frames to groups only
	stateful              bool          // UDP packets that are no answers, except to the listener's port, are dropped
}

// hosts are the addresses of both ends.
var hosts = [2]string{"10.99.7.1", "10.99.7.2"}

// wire connects the two hosts.
type wire struct {
	ends  [2]*os.File // TAP devices
	began time.Time
	done  sync.WaitGroup

	mu    sync.Mutex
	flows map[[2]netip.AddrPort]bool // guarded by mu: unicast flows that have passed
}

// answers reports whether a UDP frame goes to the listener's port or answers a packet that has
// passed, and records the flow.
func (w *wire) answers(frame []byte) bool {
	end := func(addr, port int) netip.AddrPort {
		a, _ := netip.AddrFromSlice(frame[addr : addr+4])
		return netip.AddrPortFrom(a, binary.BigEndian.Uint16(frame[port:]))
	}
	from, to := end(26, 34), end(30, 36)
	w.mu.Lock()
	defer w.mu.Unlock()
	ok := to.Port() == 7401 || w.flows[[2]netip.AddrPort{to, from}]
	w.flows[[2]netip.AddrPort{from, to}] = true
	return ok
}

// newHost creates a TAP device named eth in the network namespace of this thread.
func newHost(t *testing.T, addr string, mtu uint32) *os.File {
	t.Helper()
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		testenv.Skip(t, "no TAP devices: %v", err)
	}
	ifr, err := unix.NewIfreq("eth")
	if err != nil {
		t.Fatal(err)
	}
	ifr.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		testenv.Skip(t, "cannot create a TAP device: %v", err)
	}
	testenv.SetMTU(t, "eth", mtu)
	testenv.LinkUp(t, "eth")
	testenv.AddAddr(t, "eth", addr+"/24")
	return os.NewFile(uintptr(fd), "tap")
}

// config is the configuration of a side on this thread's host.
func config(t *testing.T, host int) Config {
	t.Helper()
	ifc, err := net.InterfaceByName("eth")
	if err != nil {
		t.Fatal(err)
	}
	return Config{Interface: *ifc, Addr: netip.MustParseAddr(hosts[host]), Group: netip.MustParseAddrPort("239.20.255.3:7401"), TTL: 1}
}

// listening runs a listener in its own network namespace until t ends, and returns the end of its wire.
func listening(t *testing.T, mtu uint32) *os.File {
	t.Helper()
	type made struct {
		l   *Listener
		tap *os.File
	}
	out := make(chan made)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its namespace
		defer close(out)
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Errorf("a network namespace cannot be made: %v", err)
			return
		}
		tap := newHost(t, hosts[1], mtu)
		l, err := Listen(config(t, 1), func(netip.AddrPort) {})
		if err != nil {
			t.Error(err)
			return
		}
		out <- made{l, tap}
	}()
	m := <-out
	if m.l == nil {
		t.FailNow()
	}
	ctx, done := t.Context(), make(chan struct{})
	go func() { defer close(done); m.l.Run(ctx) }()
	t.Cleanup(func() { <-done }) // t's context has ended
	return m.tap
}

// connect connects the ends. there and back are the faults of each direction, seen from here.
func connect(t *testing.T, here, far *os.File, there, back faults) *wire {
	w := &wire{ends: [2]*os.File{here, far}, began: time.Now(), flows: make(map[[2]netip.AddrPort]bool)}
	for i, f := range []faults{there, back} {
		w.done.Go(func() { w.carry(w.ends[i], w.ends[1-i], f, rand.New(rand.NewPCG(uint64(i), 7))) })
	}
	t.Cleanup(func() {
		here.Close()
		far.Close()
		w.done.Wait()
	})
	return w
}

// carry moves frames in one direction until an end is closed.
func (w *wire) carry(from, to *os.File, f faults, rnd *rand.Rand) {
	buf := make([]byte, 1<<16)
	var held []byte
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		frame := buf[:n]
		isIP := n >= 34 && binary.BigEndian.Uint16(frame[12:]) == 0x0800
		group := frame[0]&1 != 0 && isIP
		probe := isIP && n >= 14+28+headerSize && string(frame[42:47]) == magic && kind(frame[47]) == kindProbe
		answers := !isIP || group || n < 42 || frame[23] != unix.IPPROTO_UDP || w.answers(frame)
		switch {
		case f.stateful && !answers:
			continue
		case group && (f.noMulticast || f.stopsAfter > 0 && time.Since(w.began) > f.stopsAfter),
			f.mtu > 0 && isIP && n-14 > f.mtu,
			group && probe && rnd.Float64() < f.multicastLoss,
			probe && rnd.Float64() < f.loss:
			continue
		}
		if isIP && f.hops > 0 {
			frame[22] -= f.hops
			binary.BigEndian.PutUint16(frame[24:], 0)
			binary.BigEndian.PutUint16(frame[24:], checksum(frame[14:34]))
		}
		if probe && held == nil && rnd.Float64() < f.reorder {
			held = append(held, frame...)
			continue
		}
		to.Write(frame)
		if probe && rnd.Float64() < f.copies {
			to.Write(frame)
		}
		if held != nil {
			to.Write(held)
			held = nil
		}
	}
}

// checksum computes the checksum of an IPv4 header (RFC 791).
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 0; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// query sends an IGMP query to one end, like a switch.
func (w *wire) query(end int) {
	frame := append([]byte{1, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0},
		0x46, 0xc0, 0, 36, 0, 0, 0, 0, 1, unix.IPPROTO_IGMP, 0, 0, 10, 99, 7, 9, 224, 0, 0, 1, // IP, with
		0x94, 4, 0, 0, // the option Router Alert
		0x11, 100, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0) // a general query, every 125 s
	binary.BigEndian.PutUint16(frame[24:], checksum(frame[14:38]))
	binary.BigEndian.PutUint16(frame[40:], checksum(frame[38:]))
	w.ends[end].Write(frame)
}

package lab

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// cable forwards Ethernet frames between two interfaces of a network namespace, and drops a share
// of the RoCEv2 datagrams: the host's kernel needs no queueing discipline for that. Offloads pass
// through it (packet(7), PACKET_VNET_HDR).
type cable struct {
	ends [2]int // packet sockets
	lost [2]atomic.Int64
	quit atomic.Bool
	done sync.WaitGroup
}

var cableEnds = [2]string{"a0", "b0"}

// newCable starts forwarding. The ends are in the namespace ns.
func newCable(t *testing.T, ns string, loss float64) *cable {
	t.Helper()
	c := new(cable)
	inNamespace(t, ns, func() {
		for i, name := range cableEnds {
			c.ends[i] = packetSocket(t, name)
		}
	})
	for i := range c.ends {
		rng := rand.New(rand.NewPCG(*seed, uint64(i)))
		c.done.Add(1)
		go func() {
			defer c.done.Done()
			c.carry(t, i, func() bool { return rng.Float64() < loss })
		}()
	}
	t.Cleanup(func() { c.end(t) })
	return c
}

// carry forwards frames from one end to the other.
func (c *cable) carry(t *testing.T, from int, lose func() bool) {
	const vnet, ethernet, ipv4 = 10, 14, 20
	b := make([]byte, 1<<16)
	for !c.quit.Load() {
		n, err := unix.Read(c.ends[from], b)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue // timeout of the socket, to check quit
		}
		if err != nil {
			t.Errorf("the cable cannot receive: %v", err)
			return
		}
		if f := b[vnet:n]; len(f) >= ethernet+ipv4+8 && binary.BigEndian.Uint16(f[12:]) == 0x0800 && f[ethernet+9] == protoUDP &&
			binary.BigEndian.Uint16(f[ethernet+ipv4+2:]) == rocePort && lose() {
			c.lost[from].Add(1)
			continue
		}
		if _, err := unix.Write(c.ends[1-from], b[:n]); errors.Is(err, unix.ENOBUFS) {
			c.lost[from].Add(1)
		} else if err != nil {
			t.Errorf("the cable cannot send: %v", err)
			return
		}
	}
}

// end stops the cable, and returns how many datagrams were lost in each direction.
func (c *cable) end(t *testing.T) (there, back int) {
	if !c.quit.Swap(true) {
		c.done.Wait()
		for i, fd := range c.ends {
			s, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
			if err != nil {
				t.Errorf("the statistics of the cable cannot be read: %v", err)
			} else {
				c.lost[i].Add(int64(s.Drops)) // its own queue overflowed
			}
			unix.Close(fd)
		}
	}
	return int(c.lost[0].Load()), int(c.lost[1].Load())
}

// packetSocket returns a socket that receives every frame of an interface.
func packetSocket(t *testing.T, name string) int {
	t.Helper()
	link, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
	// protocol 0: it receives nothing before it is bound
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index}))
	}
	if err != nil {
		t.Fatalf("the packet socket on %s cannot be opened: %v", name, err)
	}
	return fd
}

// inNamespace runs f in a network namespace of ip-netns(8).
func inNamespace(t *testing.T, ns string, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ours, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := os.Open("/run/netns/" + ns)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if err := unix.Setns(int(theirs.Fd()), unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setns(int(ours.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err) // the thread must not run other goroutines
		}
	}()
	f()
}

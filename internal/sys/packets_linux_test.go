package sys

import (
	"bytes"
	"fmt"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
)

func TestSockaddr(t *testing.T) {
	for _, text := range []string{"239.20.0.1:7400", "127.0.0.1:1", "[ff15::20:1]:7400", "[fe80::1]:65535"} {
		want := netip.MustParseAddrPort(text)
		sa := NewSockaddr(want, 3)
		if got := sa.AddrPort(); got != want || sa.Is6() != want.Addr().Is6() || sa.As16() != want.Addr().As16() || sa.Port() != want.Port() {
			t.Errorf("%v was converted back to %v", want, got)
		}
	}
	for text, scope := range map[string]uint32{"[fe80::1]:1": 3, "[ff02::1]:1": 3, "[ff15::1]:1": 0, "[2001:db8::1]:1": 0} {
		sa := NewSockaddr(netip.MustParseAddrPort(text), 3)
		if sa.raw.Scope_id != scope {
			t.Errorf("%s has interface %d, want %d", text, sa.raw.Scope_id, scope)
		}
		sa.SetInterface(5)
		if want := scope / 3 * 5; sa.raw.Scope_id != want {
			t.Errorf("%s has interface %d after SetInterface, want %d", text, sa.raw.Scope_id, want)
		}
	}
	v4 := NewSockaddr(netip.MustParseAddrPort("1.2.3.4:5"), 3)
	before := v4
	if v4.SetInterface(5); v4 != before {
		t.Error("an IPv4 address has an interface")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens a UDP socket on loopback, and returns its address.
func open(t *testing.T, ip string) (fd int, addr netip.AddrPort) {
	t.Helper()
	at := netip.AddrPortFrom(netip.MustParseAddr(ip), 0)
	fd, err := OpenUDP(at.Addr().Is6())
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	must(t, Bind(fd, at, 1))
	addr, err = LocalAddr(fd)
	must(t, err)
	return fd, addr
}

// await waits until a message can be received.
func await(t *testing.T, fd int) {
	t.Helper()
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 20_000)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || n == 0:
			t.Fatalf("no packet arrives: %v", err)
		}
		return
	}
}

func newBatch(messages, size int) (*RecvBatch, [][]byte) {
	r := NewRecvBatch(messages, RoomForHeaders)
	bufs := make([][]byte, messages)
	for i := range bufs {
		bufs[i] = make([]byte, size)
		r.SetBuffer(i, bufs[i])
	}
	return r, bufs
}

// Packets arrive as they were sent, with their sender's address, hop limit and traffic class: sent as single packets,
// as a train that is gathered from parts, and by SendTo.
func TestPackets(t *testing.T) { testPackets(t, "127.0.0.1") }

// A network namespace has ::1, which not every host has.
func TestPacketsIPv6(t *testing.T) {
	if testenv.Namespace(t) {
		testPackets(t, "::1")
	}
}

func testPackets(t *testing.T, ip string) {
	rx, to := open(t, ip)
	tx, from := open(t, ip)
	if to.Addr().Is4() {
		must(t, Set(rx, "IP_RECVTTL", unix.IPPROTO_IP, unix.IP_RECVTTL, 1))
		must(t, Set(rx, "IP_RECVTOS", unix.IPPROTO_IP, unix.IP_RECVTOS, 1))
	} else {
		must(t, Set(rx, "IPV6_RECVHOPLIMIT", unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1))
		must(t, Set(rx, "IPV6_RECVTCLASS", unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1))
	}
	in, bufs := newBatch(4, 64)
	receive := func(want int, hops, class uint8) (got []string) {
		t.Helper()
		for len(got) < want {
			await(t, rx)
			n, errno := in.Recv(rx, 4)
			if errno != 0 {
				t.Fatalf("Recv: %v", errno)
			}
			for i := range n {
				got = append(got, string(bufs[i][:in.Size(i)]))
				if in.From(i).AddrPort() != from || in.Truncated(i) || in.ControlTruncated(i) {
					t.Errorf("message from %v, truncated %v, control messages truncated %v, want %v, whole", in.From(i).AddrPort(), in.Truncated(i), in.ControlTruncated(i), from)
				}
				if c := in.Control(i); hops != 0 && c.HopLimit != hops || c.TrafficClass != class {
					t.Errorf("hop limit and traffic class %d, %d, want %d, %d", c.HopLimit, c.TrafficClass, hops, class)
				}
			}
		}
		return got
	}
	check := func(how string, got []string, want ...string) {
		t.Helper()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: received %q, want %q", how, got, want)
		}
	}

	var out SendBatch
	out.SetAddress(NewSockaddr(to, 1))
	parts := []string{"first", "other", "end"}
	for i, p := range parts {
		out.Put(i, []byte(p))
	}
	each := func(how string, hops, class uint8) {
		t.Helper()
		if n, errno := out.SendEach(tx, len(parts)); n != len(parts) || errno != 0 {
			t.Fatalf("%s: %d packets sent, %v, want %d", how, n, errno, len(parts))
		}
		check(how, receive(3, hops, class), parts...)
	}
	train := func(how string, hops, class uint8) {
		t.Helper()
		errno := out.SendTrain(tx, len(parts), 5)
		if RefusesTrains(errno) {
			t.Logf("this system does not support trains: %v", errno)
			return
		}
		if errno != 0 {
			t.Fatalf("sending: %v", errno)
		}
		check(how, receive(3, hops, class), parts...)
	}
	each("each", 0, 0)
	train("train", 0, 0)
	out.SetHeader(7, 0)
	each("single packets, 7 hops", 7, 0)
	train("train, 7 hops", 7, 0)
	out.SetHeader(9, 0x28)
	each("single packets, 9 hops and a class", 9, 0x28)
	train("train, 9 hops and a class", 9, 0x28)
	out.SetHeader(0, 0)
	each("single packets, values of the socket", 0, 0)
	if errno := out.SendTrain(tx, len(parts), 0); errno != 0 {
		t.Fatalf("SendTrain: %v", errno)
	}
	check("one packet from parts", receive(1, 0, 0), "firstotherend")
	sa := NewSockaddr(to, 1)
	if errno := SendTo(tx, []byte("alone"), &sa); errno != 0 {
		t.Fatalf("SendTo: %v", errno)
	}
	check("SendTo", receive(1, 0, 0), "alone")
	if n, errno := in.Recv(rx, 4); n != 0 || errno != unix.EAGAIN {
		t.Errorf("Recv without packets: %d, %v, want %v", n, errno, unix.EAGAIN)
	}
}

// A change of address applies to later sends, also to one of the other family.
func TestSendBatchChangesAddress(t *testing.T) {
	if !testenv.Namespace(t) { // for ::1
		return
	}
	rx4, to4 := open(t, "127.0.0.1")
	rx4b, to4b := open(t, "127.0.0.1")
	rx6, to6 := open(t, "::1")
	tx4, _ := open(t, "127.0.0.1")
	tx6, _ := open(t, "::1")
	var out SendBatch
	out.SetHeader(5, 0)
	for _, c := range []struct {
		tx, rx int
		to     netip.AddrPort
	}{{tx4, rx4, to4}, {tx4, rx4b, to4b}, {tx6, rx6, to6}, {tx4, rx4, to4}} {
		out.SetAddress(NewSockaddr(c.to, 1))
		out.Put(0, []byte("hello"))
		if n, errno := out.SendEach(c.tx, 1); n != 1 || errno != 0 {
			t.Fatalf("SendEach to %v: %d packets, %v, want 1", c.to, n, errno)
		}
		await(t, c.rx)
		in, bufs := newBatch(1, 64)
		if n, errno := in.Recv(c.rx, 1); n != 1 || string(bufs[0][:in.Size(0)]) != "hello" {
			t.Errorf("Recv at %v: %d packets, %v, want one with hello", c.to, n, errno)
		}
	}
}

// A message that does not fit its buffer is reported as truncated, and so are control messages that do not fit. The
// next message is not affected.
func TestTruncated(t *testing.T) {
	rx, to := open(t, "127.0.0.1")
	tx, _ := open(t, "127.0.0.1")
	must(t, Set(rx, "IP_RECVTTL", unix.IPPROTO_IP, unix.IP_RECVTTL, 1))
	in, bufs := newBatch(1, 4)
	sa := NewSockaddr(to, 1)
	for _, c := range []struct {
		text    string
		control int
		cut     bool
	}{{"long one", RoomForHeaders, true}, {"fits", RoomForHeaders, false}, {"fits", 0, false}, {"fits", RoomForHeaders, false}} {
		if errno := SendTo(tx, []byte(c.text), &sa); errno != 0 {
			t.Fatalf("SendTo: %v", errno)
		}
		await(t, rx)
		if n, errno := in.RecvLimited(rx, 1, c.control); n != 1 {
			t.Fatalf("RecvLimited: %d packets, %v, want 1", n, errno)
		}
		if in.Truncated(0) != c.cut || in.ControlTruncated(0) != (c.control == 0) || !bytes.HasPrefix([]byte(c.text), bufs[0]) {
			t.Errorf("%q, %d bytes for control: truncated %v, control messages truncated %v, want %v and %v", c.text, c.control, in.Truncated(0), in.ControlTruncated(0), c.cut, c.control == 0)
		}
		if hops := in.Control(0).HopLimit; (hops == 0) != (c.control == 0) {
			t.Errorf("%d bytes for control: hop limit %d", c.control, hops)
		}
	}
}

// A train arrives as one message with its segment size if the kernel coalesces it.
func TestTrain(t *testing.T) {
	rx, to := open(t, "127.0.0.1")
	tx, _ := open(t, "127.0.0.1")
	if !SupportsGSO(tx) || !EnableGRO(rx) {
		testenv.Skip(t, "this kernel does not support trains")
	}
	const size = 1000
	payload := make([]byte, 60*size+size/2)
	for i := range payload {
		payload[i] = byte(i / size)
	}
	var out SendBatch
	out.SetAddress(NewSockaddr(to, 1))
	half := len(payload) / 2 // parts need not be packets
	out.Put(0, payload[:half])
	out.Put(1, payload[half:])
	in, bufs := newBatch(64, 1<<16)
	n := 0
	must(t, errnoOrNil(out.SendTrain(tx, 2, size)))
	var got []byte
	for len(got) < len(payload) {
		await(t, rx)
		k, errno := in.Recv(rx, 64)
		must(t, errnoOrNil(errno))
		for i := range k {
			if c := in.Control(i); in.Size(i) > size && c.Segment != size {
				t.Errorf("%d bytes in segments of %d, want %d", in.Size(i), c.Segment, size)
			}
			got = append(got, bufs[i][:in.Size(i)]...)
		}
		n += k
	}
	if !bytes.Equal(got, payload) {
		t.Error("the payload has changed")
	}
	if n > 2 {
		t.Errorf("the train arrived in %d messages, want at most 2", n)
	}
}

func errnoOrNil(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// Sending and receiving packets allocates nothing.
func TestNoAllocations(t *testing.T) {
	rx, to := open(t, "127.0.0.1")
	tx, _ := open(t, "127.0.0.1")
	CountDrops(rx)
	in, _ := newBatch(2, 64)
	var out SendBatch
	var drops Drops
	out.SetAddress(NewSockaddr(to, 1))
	p := []byte("packet")
	if n := testing.AllocsPerRun(100, func() {
		out.SetHeader(3, 0)
		out.Put(0, p)
		out.SendEach(tx, 1)
		out.SendTrain(tx, 1, 0)
		for got := 0; got < 2; {
			n, _ := in.Recv(rx, 2)
			for i := range n {
				c := in.Control(i)
				drops.Update(&c)
				_ = in.From(i).AddrPort()
			}
			got += n
		}
		out.SetAddress(NewSockaddr(to, 1))
	}); n != 0 {
		t.Errorf("%v allocations a round, want none", n)
	}
}

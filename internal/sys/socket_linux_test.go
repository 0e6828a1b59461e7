package sys

import (
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Errors have the name of the call or option, and the errno.
func TestErrors(t *testing.T) {
	fd, at := open(t, "127.0.0.1")
	for want, err := range map[syscall.Errno]error{
		unix.EINVAL:     Bind(fd, at, 1), // the socket is already bound
		unix.ENODEV:     Join(fd, netip.MustParseAddr("239.1.2.3"), 1<<30),
		unix.EBADF:      SetMulticast(-1, at.Addr(), 1, 1, true),
		unix.EADDRINUSE: Bind(newSocket(t), at, 1),
	} {
		if call := new(os.SyscallError); !errors.Is(err, want) || !errors.As(err, &call) || call.Syscall == "" {
			t.Errorf("error %v, want %v in a SyscallError with the name of the call", err, want)
		}
	}
}

func newSocket(t *testing.T) int {
	t.Helper()
	fd, err := OpenUDP(false)
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// Members of a group receive packets to it, from the selected interface, and none after Leave.
func TestGroups(t *testing.T) {
	const lo = 1
	group := netip.MustParseAddr("239.255.77.1")
	tx, from := open(t, "127.0.0.1")
	rx := newSocket(t)
	must(t, Share(rx))
	must(t, OnlyOwnGroups(rx, false, lo))
	must(t, Bind(rx, netip.AddrPortFrom(group, 0), lo))
	to, err := LocalAddr(rx)
	must(t, err)
	must(t, SetMulticast(tx, from.Addr(), lo, 1, true))
	must(t, Join(rx, group, lo))
	sa := NewSockaddr(netip.AddrPortFrom(group, to.Port()), lo)
	if errno := SendTo(tx, []byte("to members"), &sa); errno != 0 {
		t.Fatalf("SendTo the members: %v", errno)
	}
	await(t, rx)
	in, bufs := newBatch(1, 64)
	if n, _ := in.Recv(rx, 1); n != 1 || string(bufs[0][:in.Size(0)]) != "to members" {
		t.Errorf("received %d messages, want 1 with \"to members\"", n)
	}
	Leave(rx, group, lo)
	if errno := SendTo(tx, []byte("no receiver"), &sa); errno != 0 {
		t.Fatalf("SendTo a group without a receiver: %v", errno)
	}
	if n, errno := in.Recv(rx, 1); n != 0 || errno != unix.EAGAIN {
		t.Errorf("received %d messages, %v, want none and %v", n, errno, unix.EAGAIN)
	}
}

// A socket with a filter receives the datagrams that the program accepts. An invalid program is an error.
func TestSetFilter(t *testing.T) {
	rx, to := open(t, "127.0.0.1")
	tx, _ := open(t, "127.0.0.1")
	const header = 8 // of UDP, where the data of a filter begins
	must(t, SetFilter(rx, []bpf.Instruction{
		bpf.LoadAbsolute{Off: header, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 'y', SkipFalse: 1},
		bpf.RetConstant{Val: 0xffff},
		bpf.RetConstant{},
	}))
	sa := NewSockaddr(to, 1)
	for _, text := range []string{"no", "yes", "not this"} {
		if errno := SendTo(tx, []byte(text), &sa); errno != 0 {
			t.Fatalf("SendTo: %v", errno)
		}
	}
	await(t, rx)
	in, bufs := newBatch(4, 64)
	if n, _ := in.Recv(rx, 4); n != 1 || string(bufs[0][:in.Size(0)]) != "yes" {
		t.Errorf("%d messages received, want one with yes", n)
	}
	for name, program := range map[string][]bpf.Instruction{
		"nothing":       nil,
		"no end":        {bpf.LoadAbsolute{Off: 0, Size: 1}},
		"bad load size": {bpf.LoadAbsolute{Off: 0, Size: 3}, bpf.RetConstant{}},
	} {
		if SetFilter(rx, program) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

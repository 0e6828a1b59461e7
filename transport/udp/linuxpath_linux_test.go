//go:build !fanfare_plainudp

package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/transport"
)

func TestSendErrors(t *testing.T) {
	for _, errno := range []syscall.Errno{unix.EAGAIN, unix.ENOBUFS} {
		err := sendError("sendmsg", errno)
		if !errors.Is(err, transport.ErrBusy) || !errors.Is(err, errno) {
			t.Errorf("sendError of %v: %v, want %v", errno, err, transport.ErrBusy)
		}
		if n := testing.AllocsPerRun(100, func() { _ = sendError("sendmsg", errno) }); n != 0 {
			t.Errorf("%v costs %v allocations, want none", errno, n)
		}
	}
	err := sendError("sendmsg", unix.ENETUNREACH)
	var typed *SendError
	if errors.Is(err, transport.ErrBusy) || !errors.Is(err, unix.ENETUNREACH) || !errors.As(err, &typed) || typed.Op != "sendmsg" {
		t.Errorf("sendError of ENETUNREACH: %v, want a SendError of sendmsg, not %v", err, transport.ErrBusy)
	}
	for _, errno := range []syscall.Errno{unix.ENOBUFS, unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		if err := groupLimit(os.NewSyscallError("join", errno)); !errors.Is(err, transport.ErrGroupLimit) || !errors.Is(err, errno) {
			t.Errorf("groupLimit of %v: %v, want %v", errno, err, transport.ErrGroupLimit)
		}
	}
	if err := groupLimit(os.NewSyscallError("bind", unix.EADDRINUSE)); errors.Is(err, transport.ErrGroupLimit) {
		t.Error("EADDRINUSE counts as a group limit")
	}
}

// A program of any user that uses the port exclusively prevents a subscriber from joining: the error names the port and
// gives advice. It cannot affect earlier subscribers, because then it cannot bind the port. docs/security.md.
func TestPortUsedByAnotherProgram(t *testing.T) {
	port := testenv.Port(t)
	cfg := Config{Interface: "127.0.0.1", Range: netip.MustParsePrefix("239.21.255.0/28"), Port: port, Groups: 2}
	open := func() *Transport {
		tr, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			tr.Close()
			for b := transport.NewBatch(1); tr.Poll(b) == nil; {
				tr.Wait(-1)
			}
		})
		return tr
	}
	occupied, err := net.ListenUDP("udp4", &net.UDPAddr{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	late := open()
	want := fmt.Sprintf("UDP port %d is used by a program that does not share it: end that program (ss -ulpn 'sport = :%d' shows it), or use another port", port, port)
	join := func() error {
		b := transport.NewBatch(1)
		if err := errors.Join(late.Join(0), late.Poll(b)); err != nil || len(b.Events) != 1 {
			t.Fatalf("Join and Poll: error %v, events %v, want 1 event", err, b.Events)
		}
		return b.Events[0].Err
	}
	if err := join(); !errors.Is(err, unix.EADDRINUSE) || !strings.Contains(err.Error(), want) {
		t.Errorf("join: error %v, want %v with %q", err, unix.EADDRINUSE, want)
	}
	occupied.Close()
	if err := join(); err != nil {
		t.Fatal(err)
	}
	if c, err := net.ListenUDP("udp4", &net.UDPAddr{Port: port}); err == nil {
		c.Close()
		t.Error("a port in use was bound exclusively")
	}
}

// Whichever receive buffers are lent, released and armed, no buffer is in two lists and none is lost.
func TestReceiverBuffers(t *testing.T) {
	r, err := newReceiver(8)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	total := len(r.bufs)
	var from sys.Sockaddr
	var lent []uint64
	check := func() {
		t.Helper()
		seen := make([]bool, total)
		mark := func(b int32) {
			if seen[b] {
				t.Fatalf("buffer %d is in two lists", b)
			}
			seen[b] = true
		}
		for _, b := range r.free {
			mark(b)
		}
		for i := range r.armed {
			mark(r.at[i])
		}
		for _, token := range lent {
			mark(int32(uint32(token)))
		}
		for b, ok := range seen {
			if !ok {
				t.Fatalf("buffer %d is lost", b)
			}
		}
	}
	check()
	for i := range 10000 {
		n := 1 + i*7%maxRecv
		r.armUpTo(n)
		n = min(n, r.armed)
		for j := range n {
			lent = append(lent, r.lend(r.at[j], 1, &from))
		}
		r.rearm(n)
		check()
		for k := 0; k < i%5*n/2 && len(lent) > 0; k++ {
			at := (i * 31) % len(lent)
			r.release(lent[at])
			lent = append(lent[:at], lent[at+1:]...)
		}
		check()
	}
	stale := lent[0]
	r.release(stale)
	defer func() {
		if recover() == nil {
			t.Error("a second release did not panic")
		}
	}()
	r.release(stale)
}

// A socket buffer holds at least ReceiveCapacity packets that arrive singly, and not many more: otherwise the formula
// would waste most of the buffer. docs/protocol §16.8.
func TestReceiveCapacity(t *testing.T) {
	for _, requested := range []int{64 << 10, 212992, 1 << 20} {
		for _, size := range []int{64, 200, 512, 1000, 1472, 4000, 8900, 20000, 65507} {
			cfg := Config{Interface: "127.0.0.1", Range: netip.MustParsePrefix("239.22.0.0/28"), Groups: 1, PacketSize: size, ReceiveBuffer: requested, NoGSO: true}
			cfg.Port = testenv.Port(t)
			rx, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			tx, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			if err := rx.Join(0); err != nil {
				t.Fatal(err)
			}
			s, err := tx.NewSender(0)
			if err != nil {
				t.Fatal(err)
			}
			promised := rx.Capabilities().ReceiveCapacity
			granted := rx.unicast.option(unix.SO_RCVBUF)
			packet := make([]byte, size)
			out := &transport.Outbound{Data: packet, Stride: size, Count: 1, Lens: []uint16{uint16(size)}}
			for range 4*promised + 20 {
				if n, err := s.Send(out); n != 1 {
					t.Fatal(err)
				}
			}
			held := 0
			b := transport.NewBatch(64)
			for quiet := 0; quiet < 3; quiet++ {
				if err := rx.Poll(b); err != nil {
					t.Fatal(err)
				}
				for i := range b.Trains {
					held++
					quiet = 0
					rx.Release(&b.Trains[i])
				}
			}
			t.Logf("granted %7d bytes: %5d packets of %5d bytes, %d bytes each; computed %d", granted, held, size, granted/max(held, 1), promised)
			if held < promised {
				t.Errorf("a buffer of %d bytes holds %d packets of %d bytes, want at least the computed %d", granted, held, size, promised)
			}
			if promised < held/3 {
				t.Errorf("a buffer of %d bytes holds %d packets of %d bytes, but %d were computed, want at least a third", granted, held, size, promised)
			}
			for _, tr := range []*Transport{tx, rx} {
				tr.Close()
				for tr.Poll(b) == nil {
				}
			}
		}
	}
}

// The kernel charges a GSO train far less than its packets singly.
func TestBufferChargeOfTrains(t *testing.T) {
	single := charge(1472, headersIPv4, 65536, true)
	if single != 2304 {
		t.Errorf("1472 bytes are charged as %d, want 2304", single)
	}
	if c := charge(64, headersIPv4, 65536, true); c != 832 {
		t.Errorf("64 bytes are charged as %d, want 832", c)
	}
	if c := charge(1472, headersIPv4, 1500, false); c <= 4096 {
		t.Errorf("1472 bytes from a network card are charged as %d, less than a page", c)
	}
	if c, f := charge(65507, headersIPv4, 1500, true), charge(1472, headersIPv4, 1500, true); c != 45*f {
		t.Errorf("45 fragments are charged as %d, want 45 times %d", c, f)
	}
}

// opened opens a transport on loopback, which ends with the test.
func opened(t *testing.T) (*Transport, *transport.Batch) {
	t.Helper()
	tr, err := Open(Config{Interface: "127.0.0.1", Port: testenv.Port(t)})
	if err != nil {
		t.Fatal(err)
	}
	batch := transport.NewBatch(8)
	t.Cleanup(func() {
		tr.Close()
		for tr.Poll(batch) == nil {
		}
	})
	return tr, batch
}

// joined joins group 0, and returns a sender to it.
func joined(t *testing.T, tr *Transport) transport.Sender {
	t.Helper()
	if err := tr.Join(0); err != nil {
		t.Fatal(err)
	}
	s, err := tr.NewSender(0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A group can be left while another process also has its socket, such as a child process before exec.
func TestLeaveWhileForking(t *testing.T) {
	tr, batch := opened(t)
	s := joined(t, tr)
	child, err := unix.FcntlInt(uintptr(tr.groups[0].fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	if _, err := s.Send(&transport.Outbound{Data: []byte("unread"), Stride: 6, Count: 1, Lens: []uint16{6}}); err != nil {
		t.Fatal(err)
	}
	if err := tr.Leave(0); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if err := tr.Poll(batch); err != nil {
			t.Fatal(err)
		}
		if len(batch.Trains) > 0 {
			t.Fatal("received a train of a left group")
		}
	}
	if evs := tr.waiter.Ready(); len(evs) > 0 && evs[0].Fd == 0 {
		t.Error("epoll still reports the group")
	}
}

// A transport does not end, and its descriptors are not reused, while a Send may be using them.
func TestEndWaitsForSenders(t *testing.T) {
	tr, err := Open(Config{Interface: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := tr.NewSender(0)
	if err != nil {
		t.Fatal(err)
	}
	section := &s.(*Sender).section
	section.Enter()
	tr.Close()
	b := transport.NewBatch(1)
	for range 10 {
		if err := tr.Poll(b); err != nil {
			t.Fatalf("Poll during a Send: %v", err)
		}
	}
	section.Exit()
	if err := tr.Poll(b); !errors.Is(err, net.ErrClosed) {
		t.Fatalf("Poll: error %v, want %v", err, net.ErrClosed)
	}
}

// A signal ends a Wait before epoll has returned any socket. Then a Poll that returns fewer packets than have arrived
// reports that some are unread.
func TestInterruptedWait(t *testing.T) {
	cfg := Config{Interface: "127.0.0.1", Range: netip.MustParsePrefix("239.21.255.0/28"), Port: testenv.Port(t), Groups: 1}
	tr, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tr.Close()
		for b := transport.NewBatch(1); tr.Poll(b) == nil; {
			tr.Wait(-1)
		}
	})
	tx, err := tr.NewSender(0)
	if err != nil {
		t.Fatal(err)
	}
	b := transport.NewBatch(1)
	if err := errors.Join(tr.Join(0), tr.Poll(b)); err != nil || len(b.Events) != 2 || b.Events[1].Err != nil {
		t.Fatalf("Join and Poll: error %v, events %v, want 2, the second without an error", err, b.Events)
	}
	tr.Wait(0) // for the Wake of the Join
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	waited, ended := make(chan struct{}), make(chan struct{})
	go func(thread int) {
		defer close(ended)
		for {
			select {
			case <-waited:
				return
			default:
				unix.Tgkill(os.Getpid(), thread, unix.SIGURG) // Go itself sends this signal; it has no effect
			}
		}
	}(unix.Gettid())
	tr.Wait(-1)
	close(waited)
	<-ended
	const packets = 10
	for i := range packets { // of different lengths, so that they form no train
		if _, err := tx.Send(&transport.Outbound{Data: make([]byte, 100+i), Stride: 100 + i, Count: 1, Lens: []uint16{uint16(100 + i)}}); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; n < packets; n++ {
		if err := tr.Poll(b); err != nil || len(b.Trains) == 0 {
			t.Fatalf("Poll %d: %d trains, error %v, want at least 1", n, len(b.Trains), err)
		}
		tr.Release(&b.Trains[0])
		if !b.More && n < packets-1 {
			t.Fatalf("Poll %d, of %d packets, reports no more unread packets", n, packets)
		}
	}
}

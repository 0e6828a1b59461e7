//go:build linux

package roce

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma"
)

// asProcess is the environment variable that is set when this test binary runs itself as a process with a queue pair.
const asProcess = "FANFARE_TEST_ROCE_PROCESS"

// process runs this test binary with a queue pair. It prints its QPN, and executes commands from standard input, one per line.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	qpn  rdma.QPN
	name string
}

// TestProcess is the code of a process. In the test itself it does nothing.
func TestProcess(t *testing.T) {
	if os.Getenv(asProcess) == "" {
		return
	}
	var text string
	var check Check
	if !scan(os.Getenv(asProcess), "%s %d", &text, &check) {
		t.Fatalf("%s is %q, want a text and a check", asProcess, os.Getenv(asProcess))
	}
	ip := netip.MustParseAddr(text)
	cfg := Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{ip}, Check: check}
	p := openProvider(t, cfg)
	n := newPeerAt(t, p, ip)
	ah := n.unicast(ip)
	fmt.Println("QPN", uint32(n.qp.QPN()))
	got := 0
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var qpn, count int
		switch line := lines.Text(); {
		case scan(line, "send %d %d", &qpn, &count):
			for i := range count {
				n.send(n.wrs(ah, rdma.QPN(qpn), fmt.Sprintf("message %d", i)))
				n.poll()
			}
			fmt.Println("sent")
		case scan(line, "await %d", &count):
			for until := time.Now().Add(20 * time.Second); got < count && time.Now().Before(until); time.Sleep(50 * time.Microsecond) {
				got += len(n.poll())
			}
			fmt.Println("got", got)
			got = 0
		case line == "counters":
			c := n.counters()
			fmt.Println("counters", c.Relayed, c.FromRelay, c.NoQP, c.RelayRefused)
		}
	}
}

func scan(line, format string, to ...any) bool {
	n, err := fmt.Sscanf(line, format, to...)
	return err == nil && n == len(to)
}

// startProcess starts a process, as another user if uid is not 0.
func startProcess(t *testing.T, name string, ip netip.Addr, check Check, uid uint32) *process {
	t.Helper()
	exe, err := os.Executable()
	must(t, "executable", err)
	p := &process{t: t, name: name, cmd: exec.Command(exe, "-test.run=^TestProcess$", testenv.TimeLimit(t))}
	p.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%v %d", asProcess, ip, check))
	p.cmd.Stderr = os.Stderr
	if uid != 0 {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	p.in, err = p.cmd.StdinPipe()
	must(t, "pipe", err)
	out, err := p.cmd.StdoutPipe()
	must(t, "pipe", err)
	p.out = bufio.NewScanner(out)
	must(t, "start", p.cmd.Start())
	t.Cleanup(p.kill)
	p.expect("QPN %d", &p.qpn)
	return p
}

func (p *process) command(format string, args ...any) {
	p.t.Helper()
	_, err := fmt.Fprintf(p.in, format+"\n", args...)
	must(p.t, "command "+p.name, err)
}

func (p *process) expect(format string, to ...any) {
	p.t.Helper()
	var seen []string
	for p.out.Scan() {
		if scan(p.out.Text(), format, to...) || p.out.Text() == format {
			return
		}
		seen = append(seen, p.out.Text())
	}
	p.t.Fatalf("process %s ended: %s", p.name, strings.Join(seen, "\n"))
}

// counters returns Relayed, FromRelay, NoQP and RelayRefused.
func (p *process) counters() (c [4]int) {
	p.t.Helper()
	p.command("counters")
	p.expect("counters %d %d %d %d", &c[0], &c[1], &c[2], &c[3])
	return c
}

// send sends messages to another process and returns the number that it received.
func (p *process) send(to *process, count int) int {
	p.t.Helper()
	p.command("send %d %d", to.qpn, count)
	p.expect("sent")
	return to.await(count)
}

func (p *process) await(count int) (got int) {
	p.t.Helper()
	p.command("await %d", count)
	p.expect("got %d", &got)
	return got
}

func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.cmd.Wait()         // the error reports the signal
	}
}

// Of several processes with the same address, the one started last gets all unicast datagrams and relays them. When it
// is killed, the one started before does. Queue pair numbers are different.
func TestRelay(t *testing.T) {
	for _, c := range []struct {
		ip    string
		check Check
	}{{"127.77.1.1", CheckUDP}, {"127.77.1.2", CheckFull}, {"::1", CheckUDP}} {
		t.Run(fmt.Sprintf("%s %v", c.ip, c.check), func(t *testing.T) {
			if c.check == CheckFull && !rawAllowed() {
				testenv.Skip(t, "CAP_NET_RAW is missing")
			}
			testRelay(t, netip.MustParseAddr(c.ip), c.check)
		})
	}
}

func testRelay(t *testing.T, ip netip.Addr, check Check) {
	// This number fits into an unread queue on any system.
	const few = 8
	raw := check == CheckFull && ip.Is4() // every process receives every datagram
	a := startProcess(t, "a", ip, check, 0)
	b := startProcess(t, "b", ip, check, 0)
	c := startProcess(t, "c", ip, check, 0)
	if a.qpn == b.qpn || b.qpn == c.qpn || a.qpn == c.qpn {
		t.Fatalf("QPNs %v, %v and %v, want three different ones", a.qpn, b.qpn, c.qpn)
	}
	exchange := func(from, to *process) {
		t.Helper()
		if got := from.send(to, few); got != few {
			t.Errorf("%s received %d messages from %s, want %d", to.name, got, from.name, few)
		}
	}
	// c does not poll, but still relays datagrams for others.
	exchange(a, b)
	exchange(b, a)
	exchange(b, c)
	want := [4]int{2 * few, 0, 0, 0}
	// A process that receives everything needs no relay, and counts a datagram when it reads it.
	if got := c.counters(); got != want && !raw {
		t.Errorf("the holder counts %v, want %v", got, want)
	}
	if got := b.counters(); got != [4]int{0, few, 0, 0} && !raw {
		t.Errorf("another process counts %v, want %v", got, [4]int{0, few, 0, 0})
	}
	c.kill()
	exchange(a, b)
	exchange(b, a)
	wantB := [4]int{few, few, 0, 0}
	if got := b.counters(); got != wantB && !raw {
		t.Errorf("the next holder counts %v, want %v", got, wantB)
	}
	// A queue pair that does not exist, because its process has ended.
	a.command("send %d 3", c.qpn)
	a.expect("sent")
	exchange(a, b) // then the three datagrams were handled
	if got := b.counters(); got[2] != 3 && !raw {
		t.Errorf("the holder counts %v, want 3 without a queue pair", got)
	}
	// The holder is killed while datagrams are in flight: some may be lost, and then relaying continues.
	d := startProcess(t, "d", ip, check, 0)
	a.command("send %d 2000", b.qpn)
	time.Sleep(2 * time.Millisecond)
	d.kill()
	a.expect("sent")
	if got := b.await(2000 - 1900); got < 100 && !raw {
		t.Logf("%d of 2000 received while the holder was killed", got)
	}
	b.await(0)
	if got := a.send(b, few); got < few {
		t.Errorf("%d of %d received after the holder was killed", got, few)
	}
}

// Relayed datagrams are accepted only from the same user and root, and only if they are valid.
func TestRelayIsNotTrusted(t *testing.T) {
	ip := netip.MustParseAddr("127.77.1.3")
	p := openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{ip}, Check: CheckUDP})
	n := newPeerAt(t, p, ip)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, "socket", err)
	defer unix.Close(fd)
	packet := build("relayed", nil)
	good := relayFrame(t, packet, ip, n.qp.QPN())
	refused := uint64(0)
	for name, edit := range map[string]func(b []byte) []byte{
		"nothing":                   func(b []byte) []byte { return nil },
		"truncated in the header":   func(b []byte) []byte { return b[:39] },
		"truncated in the datagram": func(b []byte) []byte { return b[:60] },
		"other version":             func(b []byte) []byte { b[0]++; return b },
		"to another address":        func(b []byte) []byte { b[39]++; return b },
		"from a group":              func(b []byte) []byte { b[20] = 239; return b },
		"from another family":       func(b []byte) []byte { b[8] = 0x20; return b },
		"to another queue pair":     func(b []byte) []byte { b[47]++; return b },
		"to a group of the host":    func(b []byte) []byte { copy(b[45:], "\xff\xff\xff"); return b },
	} {
		frame := edit(append([]byte(nil), good...))
		must(t, name, unix.Sendto(fd, frame, 0, &unix.SockaddrUnix{Name: leaseName(n.qp.QPN())}))
		n.none(name)
		refused++
		if got := n.counters().RelayRefused; got != refused {
			t.Errorf("%s: %d refused, want %d", name, got, refused)
		}
	}
	// Attached descriptors are not received, from any sender.
	files := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		must(t, "descriptors", err)
		return len(all)
	}
	before := files()
	rights := unix.UnixRights(fd, fd, fd, fd, fd, fd, fd, fd)
	for range 10 {
		must(t, "descriptors", unix.Sendmsg(fd, good, rights, &unix.SockaddrUnix{Name: leaseName(n.qp.QPN())}, 0))
		n.none("descriptors")
		refused++
	}
	if got := n.counters().RelayRefused; got != refused {
		t.Errorf("descriptors: %d refused, want %d", got, refused)
	}
	if after := files(); after > before {
		t.Errorf("%d descriptors received", after-before)
	}
	bad := append([]byte(nil), good...)
	bad[62] ^= 1
	must(t, "damaged", unix.Sendto(fd, bad, 0, &unix.SockaddrUnix{Name: leaseName(n.qp.QPN())}))
	n.none("damaged")
	must(t, "good", unix.Sendto(fd, good, 0, &unix.SockaddrUnix{Name: leaseName(n.qp.QPN())}))
	if got := n.wait(1); got[0].data != "relayed" {
		t.Errorf("received %q, want %q", got[0].data, "relayed")
	}
	if s := n.counters(); s.ICRCErrors != 1 || s.FromRelay != 2 {
		t.Errorf("counters %+v, want 1 ICRC error and 2 from the relay", s)
	}
	d := p.devices[0]
	for _, c := range []struct {
		c    sys.Control
		want bool
	}{{sys.Control{HasUID: true, UID: uint32(os.Getuid())}, true}, {sys.Control{HasUID: true}, true}, {sys.Control{}, false}, {sys.Control{HasUID: true, UID: 54321}, false}} {
		if d.trusts(&c.c) != c.want {
			t.Errorf("%+v is trusted: %v", c.c, !c.want)
		}
	}
}

// The holder relays only datagrams with the right ICRC, even if it has a raw socket, so that garbage does not cost
// other processes time.
func TestRelayChecksFirst(t *testing.T) {
	ip := netip.MustParseAddr("127.77.1.4")
	for _, check := range []Check{CheckUDP, CheckFull} {
		t.Run(check.String(), func(t *testing.T) {
			if check == CheckFull && !rawAllowed() {
				testenv.Skip(t, "CAP_NET_RAW is missing")
			}
			other := newPeerAt(t, openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{ip}, Check: CheckUDP}), ip)
			holder := newPeerAt(t, openProvider(t, Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{ip}, Check: check}), ip)
			frame := relayFrame(t, build("for another", nil), ip, other.qp.QPN())
			datagram := frame[relayHeaderBytes:]
			d := holder.p.devices[0]
			give := func(b []byte) {
				d.rxMu.Lock()
				defer d.rxMu.Unlock()
				if d.rx.mem == nil {
					must(t, "receive memory", d.rx.open(d))
				}
				s := &socket{kind: unicastSocket, ipv4: true, dst: rdma.GIDFromIP(ip)}
				d.rx.in.train(s, b, len(b), rdma.GID(frame[8:24]), 57236, &netFields{0, 64})
				d.rx.in.flush()
			}
			for i := range datagram {
				if i == 4 {
					continue // the ICRC does not cover it
				}
				b := append([]byte(nil), datagram...)
				b[i] ^= 0x10
				give(b)
			}
			if s := holder.counters(); s.Relayed+s.RelayFailed+s.NoQP > 0 {
				t.Errorf("damaged datagrams were relayed: %+v", s)
			}
			give(append([]byte(nil), datagram...))
			if got := other.wait(1); got[0].data != "for another" {
				t.Errorf("received %q, want %q", got[0].data, "for another")
			}
			if s := holder.counters(); s.Relayed != 1 {
				t.Errorf("%d relayed, want 1", s.Relayed)
			}
		})
	}
}

// Root and the process's own user may relay, but not users that this user namespace does not map, which all have the
// same uid.
func TestUsers(t *testing.T) {
	for _, c := range []struct {
		u    users
		uid  uint32
		want bool
	}{
		{users{own: 1000, unknown: 65534}, 1000, true},
		{users{own: 1000, unknown: 65534}, 0, true},
		{users{own: 1000, unknown: 65534}, 1001, false},
		{users{own: 1000, unknown: 65534}, 65534, false},
		{users{own: 65534, unknown: 65534}, 65534, true}, // the user with the overflow uid, if all users are mapped
		{users{own: 65534, unknown: 65534, hidden: true}, 65534, false},
		{users{own: 0, unknown: 65534, hidden: true}, 65534, false},
		{users{own: 0, unknown: 65534, hidden: true}, 0, true},
	} {
		if got := c.u.trusts(c.uid); got != c.want {
			t.Errorf("users %+v trust %d: %v, want %v", c.u, c.uid, got, c.want)
		}
	}
	for text, want := range map[string]bool{
		"         0          0 4294967295\n": true,
		"         0       1000          1\n": false,
		"0 0 65536\n":                        false,
		"":                                   false,
		"0 0 1000\n1000 1000 4294966295\n":   false,
		"         0     100000      65536\n": false,
	} {
		if got := mapsAll(text); got != want {
			t.Errorf("%q maps all users to themselves: %v, want %v", text, got, want)
		}
	}
	if u := currentUsers(); u.own != uint32(os.Getuid()) {
		t.Errorf("users %+v, want own %d", u, os.Getuid())
	}
}

// A process that ends relays unread datagrams for others.
func TestEndRelaysRemaining(t *testing.T) {
	ip := netip.MustParseAddr("127.77.1.9")
	cfg := Config{Interfaces: []string{"lo"}, Addrs: []netip.Addr{ip}, Check: CheckUDP}
	remaining := newPeerAt(t, openProvider(t, cfg), ip)
	ah := remaining.unicast(ip)
	for round := range 20 {
		t.Run("", func(t *testing.T) {
			newPeerAt(t, openProvider(t, cfg), ip) // it was started last, so the kernel delivers datagrams to it
			remaining.send(remaining.wrs(ah, remaining.qp.QPN(), fmt.Sprint("message ", round)))
		})
		if got := remaining.wait(1); len(got) != 1 || got[0].data != fmt.Sprint("message ", round) {
			t.Fatalf(`round %d: received %v, want "message %d"`, round, got, round)
		}
	}
}

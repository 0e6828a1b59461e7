package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// withTimeout makes a program that hangs print its goroutines.
const withTimeout = "timeout -s QUIT 100 "

// The programs that rdma-core's mckey in VM 1 talks to.
var mckeyPeers = []struct {
	name    string
	vm      int // 0: the host
	program string
	rdma    bool // rdma-core's own mckey
}{
	{"kernel", 3, "mckey -b $IP", true},
	{"roce in a VM", 2, withTimeout + "./fanfare mckey -t roce://eth0", false},
	{"verbs", 3, withTimeout + "rdma/fanfare mckey -t rdma://rxe0", false},
	{"roce on the host", 0, withTimeout + "./fanfare mckey -t roce://br0", false},
	{"roce unprivileged", 0, "setpriv --reuid=65534 --regid=65534 --clear-groups " + withTimeout + "./fanfare mckey -t roce://$IP", false},
}

// mckeyCases are the options of a sender and a receiver, and what is sent.
var mckeyCases = []struct {
	name, sender, receiver    string // options
	connections, count, bytes int
}{
	{"", "", "", 1, 10, 100},
	{" -o", "-o", "", 1, 10, 100},
	// Each connection of the receiver receives from both of the sender. Fanfare's mckey sends the same amount with one
	// connection.
	{" -o -c 2 -C 7 -S 512", "-o -c 2 -C 7 -S 512", "-c 2 -C 14 -S 512", 2, 7, 512},
}

// mckeyRun is a sender and its receivers, with a group of their own.
type mckeyRun struct {
	peer, kind int
	toKernel   bool // rdma-core's mckey in VM 1 receives
}

func (r mckeyRun) group() string {
	third := r.peer + 1
	if r.toKernel {
		third += 100
	}
	return fmt.Sprintf("239.1.%d.%d", third, r.kind+1)
}

// sent returns how many connections send, and how many messages each.
func (r mckeyRun) sent() (connections, count int) {
	k := mckeyCases[r.kind]
	if r.toKernel && !mckeyPeers[r.peer].rdma {
		return 1, k.connections * k.count
	}
	return k.connections, k.count
}

func (r mckeyRun) name() string {
	if r.toKernel {
		return mckeyPeers[r.peer].name + " sends" + mckeyCases[r.kind].name
	}
	return mckeyPeers[r.peer].name + " receives" + mckeyCases[r.kind].name
}

// file returns the file with the output of the peer's program.
func (r mckeyRun) file() string { return fmt.Sprintf("out/%d-%d-%v", r.peer, r.kind, r.toKernel) }

func mckeyRuns() (runs []mckeyRun) {
	for peer := range mckeyPeers {
		for kind := range mckeyCases {
			runs = append(runs, mckeyRun{peer, kind, true})
			if !mckeyPeers[peer].rdma {
				runs = append(runs, mckeyRun{peer, kind, false})
			}
		}
	}
	return runs
}

// Each peer sends to rdma-core's mckey in VM 1, and receives from it. All senders of one direction run at once,
// because mckey sleeps most of its ten seconds. The kernel's counters and the wire are checked, because mckey exits
// with success whatever it received. A sender that joins send-only never reports membership.
func TestMckey(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	Build(t, dir, "./cmd/fanfare")
	BuildRDMA(t, dir+"/rdma", "./cmd/fanfare")
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	runs := mckeyRuns()
	const mgid = "ff0e::ffff:239.1.2.3"
	r := Run{
		VMs: 3, Dir: dir,
		Commands: map[int]string{
			1: mckeyKernel(runs) + "mckey -b $IP -M " + mgid + " 2>&1; true",
			2: mckeyPeer(runs, 2) + "./fanfare mckey -t roce://eth0 -M " + mgid + " 2>&1 >/dev/null; echo -M ended with $?",
			3: mckeyPeer(runs, 3) + "rdma/fanfare mckey -t rdma://rxe0 -M " + mgid + " 2>&1 >/dev/null; echo -M ended with $?",
		},
		Host:    mckeyPeer(runs, 0),
		Options: []string{"--no-rxe-2"},
		Timeout: 4 * time.Minute,
	}.Do(t).OK(t)

	datagrams := 0
	wire := r.Packets(t, 1)
	for _, run := range runs {
		t.Run(run.name(), func(t *testing.T) {
			k := mckeyCases[run.kind]
			sender, receiver := Addr(1), mckeyAddr(run.peer)
			if run.toKernel {
				sender, receiver = receiver, sender
				datagrams += k.connections * k.count
				// mckey prints "return status 0" at its end.
				if want := fmt.Sprintf("ended %s 0\n", run.group()); !strings.Contains(r.Out[1], want) {
					t.Errorf("mckey did not end by itself: no %q in\n%s", want, r.Out[1])
				}
			} else {
				checkReceived(t, filepath.Join(dir, run.file()), k.connections*k.count, k.bytes)
			}
			checkMckeyWire(t, wire, sender, receiver, run)
		})
	}
	if want := fmt.Sprintf("\nreceived %d\n", datagrams); !strings.Contains(r.Out[1], want) {
		t.Errorf("the kernel's counter differs from %d packets:\n%s", datagrams, r.Out[1])
	}
	// An MGID can be joined only on InfiniBand: rdma-core's mckey gets ENOTSUPP (524), and so does
	// fanfare mckey, with an explanation.
	for vm, want := range map[int]string{
		1: "failure joining: Unknown error 524\n",
		2: "(errno 524): -M is only for InfiniBand; use an IPv4 group with -m\n-M ended with 3\n",
		3: "(errno 524): -M is only for InfiniBand; use an IPv4 group with -m\n-M ended with 3\n",
	} {
		if !strings.Contains(r.Out[vm], want) {
			t.Errorf("VM %d, mckey -M: no %q in\n%s", vm, want, r.Out[vm])
		}
	}
	// Wireshark recognizes the packets.
	const all = `ip.dst==239.1.0.0/16 && udp`
	n := len(strings.Fields(r.Tshark(t, 1, "-Y", all+" && infiniband.bth.opcode==101 && infiniband.bth.destqp==0xffffff && infiniband.deth.q_key==0x01234567", "-T", "fields", "-e", "frame.number")))
	if total := len(strings.Fields(r.Tshark(t, 1, "-Y", all, "-T", "fields", "-e", "frame.number"))); n != total || n < datagrams {
		t.Errorf("tshark recognizes %d of %d datagrams, want all, at least %d", n, total, datagrams)
	}
	if bad := r.Tshark(t, 1, "-Y", all+" && ("+complaint+")"); bad != "" {
		t.Errorf("tshark reports errors in\n%s", bad)
	}
}

func mckeyAddr(peer int) string {
	if vm := mckeyPeers[peer].vm; vm != 0 {
		return Addr(vm)
	}
	return HostAddr
}

// mckeyKernel returns the script of VM 1: rdma-core's mckey as the receiver of everything, while
// its kernel counts packets, and then as the sender.
func mckeyKernel(runs []mckeyRun) string {
	var s strings.Builder
	fmt.Fprintf(&s, "start=%s\n", got)
	groups := 0
	for _, r := range runs {
		if r.toKernel {
			groups++
			fmt.Fprintf(&s, "{ mckey -m %[1]s -b $IP %[2]s >/tmp/%[1]s; echo ended %[1]s $?; } &\n", r.group(), mckeyCases[r.kind].receiver)
		}
	}
	// The kernel joins the groups a moment before the queue pairs are attached; mckey prints only at its end.
	fmt.Fprintf(&s, "until [ $(grep -c 01EF /proc/net/igmp) = %d ]; do sleep 0.1; done; sleep 1\n", groups)
	s.WriteString("vm-signal joined; wait\n")
	fmt.Fprintf(&s, "echo; echo received $((%s-start))\n", got)
	for vm := range 4 {
		if vm != 1 {
			fmt.Fprintf(&s, "vm-wait joined%d 120 || exit\n", vm)
		}
	}
	for _, r := range runs {
		if !r.toKernel {
			fmt.Fprintf(&s, "mckey -m %s -b $IP -s %s >/dev/null || echo failed &\n", r.group(), mckeyCases[r.kind].sender)
		}
	}
	s.WriteString("wait\n")
	return s.String()
}

// mckeyPeer returns the script of a VM or of the host, with the programs first as senders and then as receivers.
func mckeyPeer(runs []mckeyRun, vm int) string {
	var s strings.Builder
	start := func(toKernel bool) {
		s.WriteString("pids=; files=\n")
		for _, r := range runs {
			p, k := mckeyPeers[r.peer], mckeyCases[r.kind]
			if p.vm != vm || r.toKernel != toKernel {
				continue
			}
			options := k.receiver
			if toKernel {
				options = "-s " + k.sender
			}
			if !p.rdma {
				options = strings.ReplaceAll(strings.ReplaceAll(options, "-c 2 ", ""), "-C 7", "-C 14")
			}
			fmt.Fprintf(&s, "%s -m %s %s >%s & pids=\"$pids $!\"; files=\"$files %s\"\n", p.program, r.group(), options, r.file(), r.file())
		}
	}
	const wait = "for p in $pids; do wait $p || { echo a program ended with $?; exit 1; }; done\n"
	s.WriteString("vm-wait joined 120 || exit\n")
	start(true)
	s.WriteString(wait)
	start(false)
	// A receiver that has exited will not join.
	s.WriteString("for f in $files; do until grep -q join $f; do for p in $pids; do kill -0 $p || exit; done; sleep 0.1; done; done; ")
	fmt.Fprintf(&s, "sleep 1; vm-signal joined%d\n%s", vm, wait)
	return s.String()
}

// checkMckeyWire checks the packets on the wire: the messages that mckey sends, and membership
// reports of the receiver, and of the sender unless it joined send-only.
func checkMckeyWire(t *testing.T, wire []Packet, sender, receiver string, run mckeyRun) {
	t.Helper()
	k := mckeyCases[run.kind]
	list := Datagrams(wire, sender, run.group())
	senders := map[uint32]int{}
	for _, d := range list {
		senders[d.SrcQPN]++
		if d.Opcode != 0x65 || d.DestQPN != 0xffffff || d.QKey != 0x01234567 || d.Imm != d.SrcQPN || len(d.Data) != k.bytes || !d.ICRC {
			t.Errorf("opcode %#x to QPN %#x with Q_Key %#x from QPN %#x, immediate %#x, %d bytes, ICRC right: %v, want 0x65 to 0xffffff with 0x01234567, the QPN as immediate, %d bytes", d.Opcode, d.DestQPN, d.QKey, d.SrcQPN, d.Imm, len(d.Data), d.ICRC, k.bytes)
		}
	}
	connections, count := run.sent()
	if len(senders) != connections {
		t.Errorf("%d queue pairs of %s sent, want %d", len(senders), sender, connections)
	}
	for qpn, n := range senders {
		if n != count {
			t.Errorf("%d datagrams of QPN %#x on the wire, want %d", n, qpn, count)
		}
	}
	if n := len(Datagrams(wire, "", run.group())); n != len(list) {
		t.Errorf("%d datagrams to the group, %d of them from the sender, want all", n, len(list))
	}
	if n := IGMPReports(wire, receiver, run.group()); n == 0 {
		t.Error("no IGMP report of the receiver")
	}
	sendOnly := strings.Contains(k.sender, "-o")
	if n := IGMPReports(wire, sender, run.group()); (n == 0) != sendOnly {
		t.Errorf("%d IGMP reports of the sender, want some: %v", n, !sendOnly)
	}
}

// checkReceived checks the output of "fanfare mckey" as a receiver: count messages, each with its
// sender's QPN as immediate.
func checkReceived(t *testing.T, file string, count, size int) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	message := regexp.MustCompile(fmt.Sprintf(`(?m)^receiver: message \d+: %d bytes, immediate (\S+), from QPN (\S+), GID ::ffff:%s$`, size, regexp.QuoteMeta(Addr(1))))
	messages := message.FindAllSubmatch(b, -1)
	for _, m := range messages {
		if !bytes.Equal(m[1], m[2]) {
			t.Errorf("message %s has immediate data %s, want its sender's QPN %s", m[0], m[1], m[2])
		}
	}
	if sum := fmt.Sprintf("\nreceiver: %d of %[1]d messages received\n", count); len(messages) != count || !bytes.HasSuffix(b, []byte(sum)) {
		t.Errorf("mckey lists %d messages, want %d:\n%s", len(messages), count, b)
	}
}

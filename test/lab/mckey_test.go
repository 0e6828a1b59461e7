package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// received is the number of RoCE packets that the VM's kernel took.
const received = `echo received $(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts)`

// awaitMember waits until the VM's kernel is a member of Group, and a moment
// for the queue pair to be attached; mckey's own lines come at its end.
const awaitMember = `until grep -q 030201EF /proc/net/igmp; do sleep 0.1; done; sleep 0.5`

// The sides of a test with mckey: rdma-core's over the kernel's Soft-RoCE in
// VM 1, and rdma-core's or ours somewhere else.
var mckeySides = []struct {
	name    string
	addr    string
	program string // of that side
	options []string
	onHost  bool
}{
	{"kernel", Addr(2), "mckey -m " + Group + " -b $IP", nil, false},
	{"roce in a VM", Addr(2), "./fanfare mckey -t roce://eth0 -json", []string{"--no-rxe-2"}, false},
	{"roce on the host", HostAddr, "./fanfare mckey -t roce://br0 -json", nil, true},
	{"roce unprivileged", HostAddr, "setpriv --reuid=65534 --regid=65534 --clear-groups ./fanfare mckey -t roce://$IP -json", nil, true},
	{"verbs", Addr(2), "rdma/fanfare mckey -t rdma://rxe0 -json", nil, false},
}

// Each side sends 10 messages to rdma-core's mckey in VM 1, and hears 10 from
// it. Proof is what the kernel counts and what was on the wire, for mckey ends
// well whatever it was that it received. A sender that joins send-only never
// says that it is a member.
func TestMckey(t *testing.T) {
	Need(t)
	dir := t.TempDir()
	Build(t, dir, "./cmd/fanfare")
	BuildRDMA(t, dir+"/rdma", "./cmd/fanfare")
	for _, s := range mckeySides {
		run := func(t *testing.T, cmd1, other string) *Result {
			r := Run{VMs: 2, Dir: dir, Commands: map[int]string{1: cmd1, 2: other}, Options: s.options}
			if s.onHost {
				r.VMs, r.Host = 1, other
				delete(r.Commands, 2)
			}
			return r.Do(t)
		}
		for _, flag := range []string{"", "-o"} {
			t.Run(s.name+" sends "+flag, func(t *testing.T) {
				t.Parallel()
				r := run(t, "mckey -m "+Group+" -b $IP & "+awaitMember+"; vm-signal joined; wait $! && "+received,
					"vm-wait joined && "+s.program+" -s "+flag).OK(t)
				if !strings.Contains(r.Out[1], "\nreceived 10\n") {
					t.Errorf("the kernel counts other than 10 packets:\n%s", r.Out[1])
				}
				checkWire(t, r, s.addr, Addr(1), flag == "-o")
			})
			if s.name == "kernel" {
				continue
			}
			t.Run(s.name+" receives "+flag, func(t *testing.T) {
				t.Parallel()
				out := fmt.Sprintf("out-%s%s", strings.ReplaceAll(s.name, " ", "-"), flag)
				r := run(t, "vm-wait joined && mckey -m "+Group+" -b $IP -s "+flag,
					s.program+" >"+out+" & until grep -q join "+out+" || ! kill -0 $!; do sleep 0.1; done; vm-signal joined; wait $!").OK(t)
				checkReceived(t, filepath.Join(dir, out))
				checkWire(t, r, Addr(1), s.addr, flag == "-o")
			})
		}
	}
}

// checkWire looks at what was on the wire: the 10 messages that a mckey sends,
// and reports of membership from the receiver, and from the sender unless it
// joined send-only.
func checkWire(t *testing.T, r *Result, sender, receiver string, sendOnly bool) {
	t.Helper()
	wire := r.Packets(t, 1)
	list := Datagrams(wire, sender, Group)
	if len(list) != 10 {
		t.Errorf("%d datagrams from %s on the wire, want 10", len(list), sender)
	}
	for _, d := range list {
		if d.Opcode != 0x65 || d.DestQPN != 0xffffff || d.QKey != 0x01234567 || d.Imm != d.SrcQPN || len(d.Data) != 100 || !d.ICRC {
			t.Errorf("opcode %#x to QPN %#x with Q_Key %#x from QPN %#x, immediate %#x, %d bytes, ICRC right: %v", d.Opcode, d.DestQPN, d.QKey, d.SrcQPN, d.Imm, len(d.Data), d.ICRC)
		}
	}
	if n := IGMPReports(wire, receiver, Group); n == 0 {
		t.Error("no IGMP report of the receiver")
	}
	if n := IGMPReports(wire, sender, Group); (n == 0) != sendOnly {
		t.Errorf("%d IGMP reports of the sender", n)
	}
	// Wireshark knows the packets for what they are.
	fields := r.Tshark(t, 1, "-Y", "infiniband && ip.src=="+sender, "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.destqp", "-e", "infiniband.deth.q_key", "-e", "data.len")
	if n := strings.Count(fields, "101\t0xffffff\t0x0000000001234567\t100\n"); n != len(list) {
		t.Errorf("tshark decodes %d of %d packets so: %s", n, len(list), fields)
	}
	if bad := r.Tshark(t, 1, "-Y", "ip.src=="+sender+" && (_ws.malformed || _ws.expert.severity >= \"Warning\")"); bad != "" {
		t.Errorf("tshark complains of\n%s", bad)
	}
}

// checkReceived reads what "fanfare mckey -json" wrote as a receiver.
func checkReceived(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	messages := 0
	for d := json.NewDecoder(bytes.NewReader(b)); ; {
		var o struct {
			Type, Immediate string
			SourceQPN       string `json:"source_qpn"`
			SourceGID       string `json:"source_gid"`
			Bytes, Received int
			Complete        bool
		}
		if err := d.Decode(&o); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, b)
		}
		switch o.Type {
		case "message":
			messages++
			if o.Bytes != 100 || o.Immediate == "" || o.Immediate != o.SourceQPN || o.SourceGID != "::ffff:"+Addr(1) {
				t.Errorf("message %+v", o)
			}
		case "summary":
			if !o.Complete || o.Received != 10 {
				t.Errorf("summary %+v", o)
			}
		}
	}
	if messages != 10 {
		t.Errorf("%d messages:\n%s", messages, b)
	}
}

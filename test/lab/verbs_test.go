package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// hostsInOne makes each NIC of a VM a host of its own: what one sends to
// another goes over the wire, although the kernel has both addresses.
const hostsInOne = `
for d in all default eth0 eth1 eth2; do
	c=/proc/sys/net/ipv4/conf/$d
	echo 1 >$c/accept_local; echo 0 >$c/rp_filter; echo 1 >$c/arp_ignore; echo 2 >$c/arp_announce
done
ip rule add pref 100 lookup local; ip rule del pref 0
for i in 0 1 2; do
	ip route add 10.99.0.0/24 dev eth$i table $((50+i)); ip route add 224.0.0.0/4 dev eth$i table $((50+i))
	ip rule add pref $((1+i)) oif eth$i to 10.99.0.$((1+100*i)) lookup local
	ip rule add pref $((11+i)) oif eth$i lookup $((50+i))
done
`

// The suites of packages rdma and transport on rdma-core and the kernel's
// Soft-RoCE, plain and with the race detector.
func TestVerbsConformance(t *testing.T) {
	Need(t)
	dir := t.TempDir()
	for _, race := range []bool{false, true} {
		name, flags := "plain", []string{"-tags", "rdma"}
		if race {
			name, flags = "race", append(flags, "-race")
		}
		BuildTest(t, filepath.Join(dir, "verbs."+name), "./rdma/verbs", true, flags...)
		BuildTest(t, filepath.Join(dir, "ud."+name), "./transport/ud", true, flags...)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := Run{
				Dir:     dir,
				Command: hostsInOne + "export FANFARE_MUST_RUN=; ./verbs." + name + " -test.v -verbs.ownkernel && ./ud." + name + " -test.v -test.run TestVerbs",
				Options: []string{"--nics", "3", "--mem", "512", "--modules", "dummy"},
				Timeout: 5 * time.Minute,
			}.Do(t).OK(t)
			table := regexp.MustCompile(`\| verbs linux \S+ \| \d+ \| \d+ \| \d+ \| 0 \|`).FindString(r.Out[1])
			if table == "" || !strings.Contains(r.Out[1], "--- PASS: TestVerbs ") {
				t.Errorf("no table of conformance, or the transport's suite did not run:\n%s", r.Out[1])
			}
			t.Log("| provider | passed | not applicable | not met | failed |\n" + table)
		})
	}
}

// sent and got count packets at a VM's RDMA device.
const (
	sent = "$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts)"
	got  = "$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts)"
)

const (
	verbsPub = "timeout 100 ./fanfare pub -t rdma://rxe0 -framing itch -file feed -wait 1 "
	verbsSub = "timeout 100 ./fanfare sub -t rdma://rxe0 -framing itch -o /tmp/got "
)

// Reliable pub/sub over verbs between two kernels, with loss and reordering both
// ways.
func TestVerbsPubSub(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	BuildRDMA(t, dir, "./cmd/fanfare")
	writeFeed(t, filepath.Join(dir, "feed"), 100_000)
	const netem = "tc qdisc add dev eth0 root netem delay 1ms 500us reorder 25% 50% loss 5% && "
	r := Run{
		VMs: 2, Dir: dir,
		Commands: map[int]string{
			1: netem + verbsPub + "md.lab 2>&1",
			2: netem + verbsSub + "md.lab 2>&1 && cmp feed /tmp/got",
		},
		Options: []string{"--modules", "sch_netem"},
		Timeout: 3 * time.Minute,
	}.Do(t).OK(t)
	t.Logf("%s%s", r.Out[1], r.Out[2])
}

// On a bridge that snoops, the VM that did not join gets nothing, and the
// publisher, which joins send-only, is in no entry of the bridge.
func TestVerbsSnooping(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	BuildRDMA(t, dir, "./cmd/fanfare")
	writeFeed(t, filepath.Join(dir, "feed"), 5000)
	r := Run{
		VMs: 3, Dir: dir,
		Commands: map[int]string{
			1: "vm-wait joined; " + verbsPub + "md.lab",
			2: "vm-wait settled; " + verbsSub + "md.lab && cmp feed /tmp/got",
			3: "vm-wait settled; vm-wait looked; echo received " + got,
		},
		// A bridge floods until its querier's response interval is over, and
		// groups that nobody has joined. The table is read while the subscriber
		// is there.
		Host: "sleep 10; vm-signal settled; until bridge mdb show | grep 239.20; do sleep 0.1; done; sleep 4; vm-signal joined; " +
			"for i in $(seq 10); do bridge mdb show | grep 239.20; sleep 0.2; done; vm-signal looked",
		Options: []string{"--snoop"},
	}.Do(t).OK(t)
	entry := regexp.MustCompile(`port (t\d)n0 grp 239\.20\.`)
	ports := map[string]bool{}
	for _, m := range entry.FindAllStringSubmatch(r.Out[0], -1) {
		ports[m[1]] = true
	}
	if len(ports) != 1 || !ports["t2"] {
		t.Errorf("the bridge sends groups to ports %v, want only t2, the subscriber's:\n%s", ports, r.Out[0])
	}
	if !strings.Contains(r.Out[3], "received 0\n") {
		t.Errorf("the VM that did not join: %s", r.Out[3])
	}
	// Heartbeats before the entry is there and after the subscriber has left are
	// flooded: nobody has joined then. The feed takes hundreds of datagrams.
	flooded := 0
	for _, p := range r.Packets(t, 3) {
		if p.Protocol == protoUDP && p.Dst.IsMulticast() {
			flooded++
		}
	}
	if flooded > 20 {
		t.Errorf("%d datagrams to groups reached the VM that did not join", flooded)
	}
}

// What goes wrong below ends well: the stream recovers and is complete, or both
// sides say what is the matter and end. Nothing hangs and nothing is corrupt.
func TestVerbsFaults(t *testing.T) {
	Need(t)
	dir := t.TempDir()
	BuildRDMA(t, dir, "./cmd/fanfare")
	writeFeed(t, filepath.Join(dir, "feed"), 20_000)
	// after waits in a VM until its counter of packets has gone far enough.
	after := func(count, fault string) string {
		return "{ until [ " + count + " -gt 1000 ]; do sleep 0.1; done; " + fault + "; } & "
	}
	const flap = "ip link set eth0 down; sleep 1; ip link set eth0 up"
	// The removal ends when the program has closed the device.
	const remove = "rdma link del rxe0; echo removed"
	for _, f := range []struct {
		name, pub, sub string
		want           map[int]string // in the output of a VM
	}{
		{"subscriber's link flaps", "", after(got, flap), nil},
		{"publisher's link flaps", after(sent, flap), "", nil},
		{"subscriber's device removed", "", after(got, remove), map[int]string{2: "removed"}},
		{"publisher's device removed", after(sent, remove), "", map[int]string{1: "removed"}},
		{"subscriber stopped", "", after(got, "kill -STOP $(pidof fanfare); sleep 2; kill -CONT $(pidof fanfare)"), nil},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := Run{
				VMs: 2, Dir: dir,
				Commands: map[int]string{
					1: f.pub + verbsPub + "-rate 4000 md.lab 2>&1; echo status $?; wait",
					2: f.sub + verbsSub + "md.lab 2>&1; echo status $?; cmp feed /tmp/got && echo complete; wait",
				},
				Timeout: 2 * time.Minute,
			}.Do(t)
			if r.Status == 124 || r.Status == 125 {
				t.Fatalf("the run ended with %d", r.Status)
			}
			whole := strings.Contains(r.Out[2], "complete")
			for vm := 1; vm <= 2; vm++ {
				ended := strings.Contains(r.Out[vm], "status 0\n") || strings.Contains(r.Out[vm], "status 1\n")
				if !ended || !strings.Contains(r.Out[vm], f.want[vm]) {
					t.Errorf("VM %d hangs or says nothing:\n%s", vm, r.Out[vm])
				}
			}
			if ok := strings.Contains(r.Out[2], "status 0\n"); ok != whole {
				t.Errorf("subscriber content: %v, complete: %v\n%s", ok, whole, r.Out[2])
			}
			t.Logf("complete: %v\npublisher:\n%s\nsubscriber:\n%s", whole, r.Out[1], r.Out[2])
		})
	}
}

// A datagram that is larger than the receive buffers, which any host can send to
// a group, puts the queue pair in error on rxe of kernel 6.1: the stream goes on. It
// is complete, unless the emulated host was so slow to begin anew that the
// publisher released the subscriber: then what is missing is told.
func TestVerbsQueuePairInError(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	BuildRDMA(t, dir, "./cmd/fanfare")
	writeFeed(t, filepath.Join(dir, "feed"), 20_000)
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 3500), 0o600); err != nil {
		t.Fatal(err)
	}
	const small, url = "ip link set eth0 mtu 1500; ", "rdma://rxe0?groups=1"
	begun := "{ until [ " + got + " -gt 1000 ]; do sleep 0.1; done; vm-signal begun; } & "
	r := Run{
		VMs: 3, Dir: dir,
		Commands: map[int]string{
			1: small + "timeout 100 ./fanfare pub -t '" + url + "' -framing itch -file feed -wait 1 -rate 4000 md.lab 2>&1 || [ $? = 1 ]",
			2: small + begun + "timeout 100 ./fanfare sub -v -t '" + url + "' -framing itch -o /tmp/got md.lab 2>&1; s=$?; if [ $s = 0 ]; then cmp feed /tmp/got && echo whole; else [ $s = 1 ]; fi",
			3: "vm-wait begun; timeout 60 ./fanfare pub -t '" + url + "' -framing whole -file large -repeat 20 -rate 10 -linger 100ms other 2>&1; true",
		},
		Options: []string{"--mtu", "4200"},
	}.Do(t).OK(t)
	if !strings.Contains(r.Out[2], "begins anew") {
		t.Errorf("the queue pair was never in error:\n%s", r.Out[2])
	}
	if !strings.Contains(r.Out[2], "whole") && !(strings.Contains(r.Out[2], "messages lost") && strings.Contains(r.Out[1], "vanished")) {
		t.Errorf("neither complete nor told:\n%s\n%s", r.Out[1], r.Out[2])
	}
	t.Logf("%s\n%s\n%s", r.Out[1], r.Out[2], r.Out[3])
}

// A device is named by itself, by its interface and by its address, and what is
// wrong is said in one line with what there is.
func TestVerbsNames(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	BuildRDMA(t, dir, "./cmd/fanfare")
	if err := os.WriteFile(filepath.Join(dir, "lines"), []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	for _, name := range []string{"rxe0", "eth0", "10.99.0.1", "", "nothing", "10.1.2.3"} {
		fmt.Fprintf(&script, "timeout 20 ./fanfare pub -t rdma://%s -linger 2s -q -file lines x; echo \"<%s> $?\"; ", name, name)
	}
	r := Run{Dir: dir, Command: "{ " + script.String() + "} 2>&1"}.Do(t).OK(t)
	for _, want := range []string{"<rxe0> 0", "<eth0> 0", "<10.99.0.1> 0", "<> 0", "<nothing> 2", "<10.1.2.3> 2", "rxe0 (interface eth0)"} {
		if !strings.Contains(r.Out[1], want) {
			t.Errorf("no %q in\n%s", want, r.Out[1])
		}
	}
}

// Mixed fabric: RoCE in user space on the host and verbs in a VM, either way
// round, with loss in both directions and at both MTUs.
func TestVerbsMixed(t *testing.T) {
	Need(t)
	dir := t.TempDir()
	BuildRDMA(t, dir, "./cmd/fanfare")
	writeFeed(t, filepath.Join(dir, "feed"), 20_000)
	const loss = "tc qdisc add dev eth0 root netem loss 5% && "
	for _, mtu := range []string{"1500", "4200"} {
		for _, fromHost := range []bool{true, false} {
			name := "to the host"
			if fromHost {
				name = "from the host"
			}
			t.Run(name+", MTU "+mtu, func(t *testing.T) {
				t.Parallel()
				out := fmt.Sprintf("got-%v-%s", fromHost, mtu)
				pub := "timeout 100 ./fanfare pub -t %s -framing itch -file feed -wait 1 -faults loss=0.05 md.lab 2>&1"
				sub := "timeout 100 ./fanfare sub -t %s -framing itch -o " + out + " -faults loss=0.05 md.lab 2>&1 && cmp feed " + out
				vm, host := pub, sub
				if fromHost {
					vm, host = sub, pub
				}
				r := Run{
					Dir: dir, Command: loss + fmt.Sprintf(vm, "rdma://rxe0"), Host: fmt.Sprintf(host, "roce://br0"),
					Options: []string{"--modules", "sch_netem", "--mtu", mtu}, Timeout: 3 * time.Minute,
				}.Do(t).OK(t)
				t.Logf("VM: %shost: %s", r.Out[1], r.Out[0])
			})
		}
	}
}

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

// got counts the packets that a VM's RDMA device received with a correct ICRC (kernel sw/rxe/rxe_recv.c).
const got = "$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts)"

// sent counts the packets that it sent.
const sent = "$(cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts)"

// pubOn and subOn return the commands of the two sides on a URL, with their reports in the output.
// The subscriber's file is copied to the host at the end.
func pubOn(url, flags string) string {
	return fmt.Sprintf("timeout 150 ./fanfare pub -json -t '%s' -framing itch -file feed -wait 1 %s md.lab 2>&1; s=$?; echo status $s; ", url, flags)
}

func subOn(url, flags, file string) string {
	return fmt.Sprintf("timeout 150 ./fanfare sub -until end -json -t '%s' -framing itch -o /tmp/got %s md.lab 2>&1; s=$?; echo status $s; cp /tmp/got %s; ", url, flags, file)
}

// Loss and reordering of packets that a VM sends, and loss of those that it receives (tc-netem(8)).
const (
	netem        = "tc qdisc add dev eth0 root netem delay 1ms 500us reorder 25% 50% loss 5% && "
	netemLoss    = "tc qdisc add dev eth0 root netem loss 5% && "
	netemInward  = "ip link set ifb0 up && tc qdisc add dev ifb0 root netem loss 5% && tc qdisc add dev eth0 handle ffff: ingress && tc filter add dev eth0 parent ffff: matchall action mirred egress redirect dev ifb0 && "
	netemStats   = "tc -s qdisc show; "
	netemModules = "sch_netem"
	// ifb creates its interfaces when it is loaded.
	netemInwardModules = "sch_netem ifb sch_ingress cls_matchall act_mirred"
)

// Reliable pub/sub over verbs between two kernels, with loss and reordering in both directions: packets on the wire
// are missing and out of order, and the received messages equal the published ones.
func TestVerbsPubSub(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	BuildRDMA(t, dir, "./cmd/fanfare")
	writeFeed(t, filepath.Join(dir, "feed"), 100_000)
	r := Run{
		VMs: 2, Dir: dir,
		Commands: map[int]string{
			1: netem + pubOn("rdma://rxe0", "") + netemStats + "exit $s",
			2: netem + subOn("rdma://rxe0", "", "got") + netemStats + "exit $s",
		},
		Options: []string{"--modules", netemModules},
		Timeout: 4 * time.Minute,
	}.Do(t).OK(t)
	pub, sub := wantComplete(t, dir, "got", r.Out[1], r.Out[2])
	if pub.NAKs == 0 || pub.Repairs == 0 || sub.Repaired == 0 {
		t.Errorf("no packet was lost and repaired: publisher %+v, subscriber %+v", pub, sub)
	}
	list := Datagrams(r.Packets(t, 2), Addr(1), "")
	lost, reordered := Sequence(list)
	// 5 % and 25 % of some 25,000.
	if lost < 500 || reordered < 500 {
		t.Errorf("of %d datagrams that reached the subscriber %d were out of order, and %d were missing, want 500 or more each", len(list), reordered, lost)
	}
	for vm := 1; vm <= 2; vm++ {
		if n := dropped(t, r.Out[vm]); n[0] == 0 {
			t.Errorf("VM %d lost no packet:\n%s", vm, r.Out[vm])
		}
	}
	t.Logf("%d datagrams on the wire, %d out of order, %d missing; netem dropped %v and %v\n%+v\n%+v",
		len(list), reordered, lost, dropped(t, r.Out[1]), dropped(t, r.Out[2]), pub, sub)
}

var mdbEntry = regexp.MustCompile(`port (\S+) grp (239\.20\.\d+\.\d+)`)

// On a bridge that snoops and does not flood, the subscriber receives the stream because of its membership, the VM
// that did not join receives no datagram, and the publisher, which joins send-only, is never in the bridge's table.
func TestVerbsSnooping(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	BuildRDMA(t, dir, "./cmd/fanfare")
	writeFeed(t, filepath.Join(dir, "feed"), 5000)
	r := Run{
		VMs: 3, Dir: dir,
		Commands: map[int]string{
			1: "vm-wait joined 120; " + pubOn("rdma://rxe0", "") + "vm-signal published; exit $s",
			2: "vm-wait ready 120; " + subOn("rdma://rxe0", "", "got") + "echo received " + got + "; exit $s",
			3: "vm-wait published 200; sleep 1; echo received " + got,
		},
		// By default a bridge sends groups without members to all ports: there would be heartbeats before
		// and after the membership.
		Host: "for p in 1 2 3; do bridge link set dev t${p}n0 mcast_flood off || exit; done; stdbuf -oL bridge monitor mdb >changes & m=$!; vm-signal ready; " +
			"until bridge mdb show | grep 239.20; do sleep 0.1; done; vm-signal joined; vm-wait published 200; kill $m; echo changes; cat changes",
		Options: []string{"--snoop"},
		Timeout: 4 * time.Minute,
	}.Do(t).OK(t)
	wantComplete(t, dir, "got", r.Out[1], r.Out[2])

	// Every past entry: "[Deleted ]dev br0 port t2n0 grp 239.20.0.5 temp".
	ports, groups := map[string]bool{}, map[string]bool{}
	_, changes, _ := strings.Cut(r.Out[0], "changes\n")
	for _, text := range []string{r.Out[0], changes} {
		found := false
		for _, m := range mdbEntry.FindAllStringSubmatch(text, -1) {
			ports[m[1]], groups[m[2]], found = true, true, true
		}
		if !found {
			t.Errorf("the bridge reported no entry:\n%s", r.Out[0])
		}
	}
	if len(ports) != 1 || !ports["t2n0"] || len(groups) == 0 {
		t.Errorf("the bridge had entries for ports %v, want only t2n0, the subscriber's:\n%s", ports, r.Out[0])
	}
	for group := range groups {
		if n := IGMPReports(r.Packets(t, 1), Addr(1), group); n != 0 {
			t.Errorf("%d IGMP reports of the publisher for %s, want none", n, group)
		}
		if n := IGMPReports(r.Packets(t, 2), Addr(2), group); n == 0 {
			t.Errorf("no IGMP report of the subscriber for %s", group)
		}
	}
	if n := len(Datagrams(r.Packets(t, 2), Addr(1), "")); n < 500 {
		t.Errorf("%d datagrams reached the subscriber, want 500 or more", n)
	}
	if n := len(Datagrams(r.Packets(t, 3), "", "")); n != 0 || r.Out[3] != "received 0\n" {
		t.Errorf("%d datagrams reached the VM that did not join, and it reports %q", n, r.Out[3])
	}
	t.Logf("table of the bridge:\n%s", r.Out[0])
}

// A device can be named by itself, by its interface and by its address. An unknown name yields one
// line that lists the existing devices.
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

// Mixed fabric: RoCE in user space on the host and verbs in a VM, in both directions, with loss in both directions and
// at both MTUs. Datagrams have the size of the MTU, and are the same from either publisher.
func TestVerbsMixed(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	BuildRDMA(t, dir, "./cmd/fanfare")
	const messages = 20_000
	writeFeed(t, filepath.Join(dir, "feed"), messages)
	for mtu, rdmaMTU := range map[string]int{"1500": 1024, "4200": 4096} {
		t.Run("MTU "+mtu, func(t *testing.T) {
			t.Parallel()
			var streams [2]publishedStream
			for i, fromHost := range []bool{false, true} {
				out := fmt.Sprintf("got-%v-%s", fromHost, mtu)
				vm, host, from := pubOn("rdma://rxe0", "-rate 4000"), subOn("roce://br0", "", out), Addr(1)
				if fromHost {
					vm, host, from = subOn("rdma://rxe0", "", out), pubOn("roce://br0", "-rate 4000"), HostAddr
				}
				host = strings.ReplaceAll(host, "/tmp/got", out+".tmp") // the VM shares the host's /tmp
				r := Run{
					Dir: dir, Command: netemInward + netemLoss + vm + netemStats + "exit $s", Host: host + "exit $s",
					Options: []string{"--modules", netemInwardModules, "--mtu", mtu}, Timeout: 4 * time.Minute,
				}.Do(t).OK(t)
				pubOut, subOut := r.Out[1], r.Out[0]
				if fromHost {
					pubOut, subOut = subOut, pubOut
				}
				pub, sub := wantComplete(t, dir, out, pubOut, subOut)
				drops := dropped(t, r.Out[1])
				if len(drops) != 2 || drops[0] == 0 || drops[1] == 0 || sub.Repaired == 0 || pub.Repairs == 0 {
					t.Errorf("netem dropped %v in two directions, publisher %+v, subscriber %+v, want drops and repairs in both", drops, pub, sub)
				}
				streams[i] = checkPublished(t, r, from, rdmaMTU, filepath.Join(dir, "feed"))
				t.Logf("from the host: %v; netem dropped %v; %+v\n%+v\n%+v", fromHost, drops, streams[i], pub, sub)
			}
			if streams[0] != streams[1] {
				t.Errorf("the verbs publisher sends\n%+v\nthe one in user space\n%+v, want the same", streams[0], streams[1])
			}
		})
	}
}

// A subscriber in user space without privileges, which cannot verify complete ICRCs, receives a
// publisher on verbs, with losses.
func TestVerbsToUnprivileged(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	BuildRDMA(t, dir, "./cmd/fanfare")
	writeFeed(t, filepath.Join(dir, "feed"), 5000)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	r := Run{
		Dir: dir, Command: netemLoss + pubOn("rdma://rxe0", "-rate 2000") + netemStats + "exit $s",
		Host:    noPrivilege + "grep CapEff /proc/self/status; " + noPrivilege + strings.ReplaceAll(subOn("roce://br0", "", "got"), "/tmp/got", "got.tmp") + "exit $s",
		Options: []string{"--modules", netemModules},
		Timeout: 4 * time.Minute,
	}.Do(t).OK(t)
	pub, sub := wantComplete(t, dir, "got", r.Out[1], r.Out[0])
	if !strings.Contains(r.Out[0], "CapEff:\t0000000000000000\n") || dropped(t, r.Out[1])[0] == 0 || pub.Repairs == 0 || sub.Repaired == 0 {
		t.Errorf("want no privileges, but losses and repairs: publisher %+v, subscriber %+v\n%s", pub, sub, r.Out[0])
	}
}

// noPrivilege runs a program on the host as user nobody and without capabilities.
const noPrivilege = "setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all "

// An unprivileged publisher in user space sends trains (UDP GSO) to the kernel's RDMA: the kernel
// accepts every datagram, even those after the first of a train, whose ICRC anticipates the
// identification chosen by the sender's kernel.
func TestVerbsTrains(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	BuildRDMA(t, dir, "./cmd/fanfare")
	feed := filepath.Join(dir, "feed")
	writeFeed(t, feed, 20_000)
	if err := os.Chmod(feed, 0o644); err != nil {
		t.Fatal(err)
	}
	r := Run{
		Dir: dir,
		// The subscriber stays a member until the publisher has exited, so that all its packets are
		// counted. 239.20.x.x is xxxx14EF in the table.
		Command: "./fanfare sub -t rdma://rxe0 -framing itch -o /tmp/got md.lab 2>&1 & p=$!; until grep -q 14EF /proc/net/igmp; do sleep 0.1; done; sleep 1; vm-signal joined; " +
			"vm-wait published 200; sleep 1; echo received " + got + "; kill -INT $p; wait $p; cp /tmp/got got",
		Host: "vm-wait joined 120; " + noPrivilege + "grep CapEff /proc/self/status; " +
			noPrivilege + pubOn("roce://br0", "-rate 10000") + "vm-signal published; exit $s",
		Timeout: 4 * time.Minute,
	}.Do(t).OK(t)
	sameFiles(t, feed, filepath.Join(dir, "got"))
	if !strings.Contains(r.Out[0], "CapEff:\t0000000000000000\n") {
		t.Errorf("the publisher has privileges:\n%s", r.Out[0])
	}
	list := Datagrams(r.Packets(t, 1), HostAddr, "")
	trains := 0
	for _, d := range list {
		if d.IPID != 0 {
			trains++
		}
		if !d.ICRC {
			t.Fatalf("wrong ICRC in %+v", d)
		}
	}
	if trains == 0 {
		t.Error("no datagram follows the first one of a train")
	}
	if want := fmt.Sprintf("\nreceived %d\n", len(list)); !strings.Contains("\n"+r.Out[1], want) {
		t.Errorf("%d datagrams on the wire, but the kernel counted another number:\n%s", len(list), r.Out[1])
	}
	t.Logf("%d datagrams, %d of them after the first of a train\n%s", len(list), trains, r.Out[1])
}

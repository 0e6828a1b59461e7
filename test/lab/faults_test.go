package lab

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Shell commands that cause faults in a VM. Each waits until the stream has begun, and prints the result.
const (
	linkFlaps = "ip link set eth0 down; until rdma link | grep 'state DOWN'; do sleep 0.1; done; sleep 1; " +
		"ip link set eth0 up; until rdma link | grep 'state ACTIVE'; do sleep 0.1; done"
	// The removal completes when the program has closed the device.
	deviceRemoved = "rdma link del rxe0; echo devices left: $(ls /sys/class/infiniband | wc -l)"
	// The kernel receives 600 packets or more while no receive is posted.
	stopped = "p=$(pidof fanfare); kill -STOP $p; n=" + got + "; until [ " + got + " -gt $((n+600)) ]; do sleep 0.1; done; " +
		"echo stopped for $((" + got + "-n)) packets; kill -CONT $p; " +
		"until ./fanfare loss -json | tee /tmp/loss | grep -q '\"receive_queue_empty\"'; do sleep 0.3; done; " +
		"sed 's/^/loss: /' /tmp/loss; " +
		"until ./fanfare top -once -json | tee /tmp/top | grep -q '\"receive_queue_empty\"'; do sleep 0.3; done; sed 's/^/top: /' /tmp/top; " +
		"busybox wget -qO - http://localhost:9464/metrics | grep '^fanfare_dropped_packets_total' | sed 's/^/metrics: /'"
)

func during(count, fault string) string {
	return "{ until [ " + count + " -gt 300 ]; do sleep 0.1; done; " + fault + "; echo fault over; } & fault=$!; "
}

// Faults end in order: the stream recovers and is complete, or both sides report the fault and
// exit. The received messages are the published ones except for reported gaps, up to the reported
// end. No side hangs, and no message is corrupt.
func TestVerbsFaults(t *testing.T) {
	Need(t)
	t.Parallel()
	const (
		url  = "rdma://rxe0"
		down = "state DOWN physical_state DISABLED netdev eth0"
		up   = "state ACTIVE physical_state LINK_UP netdev eth0"
		// Event of librdmacm, in the error of the side with the removed device.
		removed = "DEVICE_REMOVAL: device was removed: no such device"
	)
	for _, f := range []struct {
		name           string
		pub, sub       string // faults
		subURL, pubArg string
		messages       int
		subArg         string
		output         map[int][]string // expected output, by VM
		check          func(t *testing.T, r *Result, complete bool)
	}{
		{"subscriber's link flaps", "", during(got, linkFlaps), url, "", 20_000, "", map[int][]string{2: {down, up}}, wantDuring(2)},
		{"publisher's link flaps", during(sent, linkFlaps), "", url, "", 20_000, "", map[int][]string{1: {down, up}}, wantDuring(1)},
		{"subscriber's device removed", "", during(got, deviceRemoved), url, "", 20_000, "", map[int][]string{1: {"stopped answering"}, 2: {"devices left: 0\n", removed}}, wantBroken},
		{"publisher's device removed", during(sent, deviceRemoved), "", url, "", 20_000, "", map[int][]string{1: {"devices left: 0\n", removed}, 2: {"fell silent before its end"}}, wantBroken},
		// The publisher waits for no subscriber, and the queue has 16 entries. The rate leaves time to query.
		{"receive queue starved", "", during(got, stopped), url + "?rq=16", "-flow none -rate 400", 10_000, "-v -metrics localhost:9464", map[int][]string{2: {"cause=receive_queue_empty"}}, wantStarved},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			BuildRDMA(t, dir, "./cmd/fanfare")
			writeFeed(t, filepath.Join(dir, "feed"), f.messages)
			const out, end = "got", "wait $fault; true"
			r := Run{
				VMs: 2, Dir: dir,
				Commands: map[int]string{
					1: f.pub + pubOn(url, "-rate 2000 "+f.pubArg) + end,
					2: f.sub + subOn(f.subURL, f.subArg, out) + end,
				},
				Timeout: 4 * time.Minute,
			}.Do(t).OK(t)
			complete := wantConsistent(t, dir, out, r.Out[2], exitStatus(t, r.Out[2]))
			for vm, wants := range f.output {
				for _, want := range wants {
					if !strings.Contains(r.Out[vm], want) {
						t.Errorf("the output of VM %d lacks %q:\n%s", vm, want, r.Out[vm])
					}
				}
			}
			for vm := 1; vm <= 2; vm++ {
				if s := exitStatus(t, r.Out[vm]); s != 0 && s != 1 { // 124 is the status of timeout(1)
					t.Errorf("VM %d: exit status %d, want 0 or 1:\n%s", vm, s, r.Out[vm])
				}
			}
			if f.check != nil {
				f.check(t, r, complete)
			}
			t.Logf("complete: %v\npublisher:\n%s\nsubscriber:\n%s", complete, r.Out[1], r.Out[2])
		})
	}
}

// wantDuring checks that the fault of a VM ended before the stream.
func wantDuring(vm int) func(t *testing.T, r *Result, complete bool) {
	return func(t *testing.T, r *Result, complete bool) {
		t.Helper()
		over, end := strings.Index(r.Out[vm], "fault over\n"), strings.Index(r.Out[vm], "\n{\"type\":\"summary\"")
		if over < 0 || over > end {
			t.Errorf("the fault did not end within the stream:\n%s", r.Out[vm])
		}
	}
}

// wantBroken checks that no side reports a complete stream.
func wantBroken(t *testing.T, r *Result, complete bool) {
	t.Helper()
	pub, sub := summaryOf[pubResult](t, r.Out[1]), summaryOf[subResult](t, r.Out[2])
	if complete || pub.Delivered || exitStatus(t, r.Out[1]) != 1 || pub.Error == "" || sub.Messages == 0 {
		t.Errorf("whole: %v, want false with exit status 1 and an error; publisher %+v, subscriber %+v", complete, pub, sub)
	}
}

// wantStarved checks that a queue of 16 entries received hundreds of packets while it could not be
// refilled, and that the subscriber lost packets because of that: the network lost none. rxe has no
// counter for this, but the log, fanfare loss, fanfare top and the metrics name the queue.
func wantStarved(t *testing.T, r *Result, complete bool) {
	t.Helper()
	wantDuring(2)(t, r, complete)
	m := regexp.MustCompile(`stopped for (\d+) packets`).FindStringSubmatch(r.Out[2])
	sub := summaryOf[subResult](t, r.Out[2])
	if m == nil {
		t.Fatalf("the subscriber was not stopped:\n%s", r.Out[2])
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	if n < 600 || sub.Missing == 0 || sub.Repaired == 0 && complete {
		t.Errorf("%d packets arrived while it was stopped, but %d were missing: %+v", n, sub.Missing, sub)
	}
	for view, want := range map[string]string{"loss": `"cause":"receive_queue_empty"`, "top": `"cause":"receive_queue_empty"`, "metrics": `cause="receive_queue_empty"`} {
		m := regexp.MustCompile(`(?m)^` + view + `: .*` + regexp.QuoteMeta(want) + `.*$`).FindString(r.Out[2])
		if m == "" || strings.HasSuffix(m, " 0") {
			t.Errorf("%s does not name the queue: %s", view, m)
		}
	}
	if lost, _ := Sequence(Datagrams(r.Packets(t, 2), Addr(1), "")); lost != 0 {
		t.Errorf("%d packets were lost on the wire, want none", lost)
	}
}

// A datagram larger than the receive buffers, which any host can send to a group, puts the queue
// pair in error on rxe of kernel 6.1: the stream continues. It is complete, unless the emulated
// host was so slow to recover that the publisher released the subscriber: then gaps are reported.
func TestVerbsQueuePairInError(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	BuildRDMA(t, dir, "./cmd/fanfare")
	writeFeed(t, filepath.Join(dir, "feed"), 20_000)
	// With one group, all topics are in the first group of the range.
	const small, url = "ip link set eth0 mtu 1500; ", "rdma://rxe0?groups=1"
	r := Run{
		VMs: 3, Dir: dir,
		Commands: map[int]string{
			1: small + pubOn(url, "-rate 2000") + "true",
			2: small + "{ until [ " + got + " -gt 300 ]; do sleep 0.1; done; vm-signal begun; } & " + subOn(url, "-v", "got") + "true",
			3: "vm-wait begun 150; ./fanfare mckey -t rdma://rxe0 -m 239.20.0.0 -s -o -S 3500 -C 20 -rate 10 -settle 0s",
		},
		Options: []string{"--mtu", "4200"},
		Timeout: 4 * time.Minute,
	}.Do(t).OK(t)
	complete := wantConsistent(t, dir, "got", r.Out[2], exitStatus(t, r.Out[2]))
	if !strings.Contains(r.Out[2], "RDMA queue pair is in error and is reset") {
		t.Errorf("the queue pair was never in error:\n%s", r.Out[2])
	}
	if n := largest(MulticastOnly(Datagrams(r.Packets(t, 2), Addr(3), ""))); n != 3500 {
		t.Errorf("the largest datagram that reached the subscriber has %d bytes, want 3500", n)
	}
	if n := largest(Datagrams(r.Packets(t, 2), Addr(1), "")); n > 1024 {
		t.Errorf("the datagrams of the stream have %d bytes, want at most 1024", n)
	}
	pub := summaryOf[pubResult](t, r.Out[1])
	if complete && pub.Silent == 0 && exitStatus(t, r.Out[1]) != 0 || !complete && (pub.Silent == 0 || exitStatus(t, r.Out[1]) != 1) {
		t.Errorf("complete: %v, but the publisher reports %+v with status %d", complete, pub, exitStatus(t, r.Out[1]))
	}
	t.Log(fmt.Sprintf("complete: %v", complete), r.Out[1], r.Out[2], r.Out[3])
}

package lab

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// messages and rate are the number of messages of TestPubSub, and their rate: a VM is emulated, and
// shares its processor, so that a higher rate would only test that.
var (
	messages = flag.Int("lab.messages", 5000, "messages that TestPubSub publishes")
	rate     = flag.Int("lab.rate", 1000, "messages a second that TestPubSub publishes; 0: no limit")
)

// Reliable pub/sub between two VMs without RDMA in their kernel. Each loses 5 % of all packets it
// sends, and reorders others: the received messages equal the published ones. Then pings are
// exchanged, so that both sides publish and subscribe. The tests of verbs cover RDMA in the kernel.
func TestPubSub(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	Build(t, dir, "./cmd/fanfare")
	writeFeed(t, filepath.Join(dir, "feed"), *messages)
	const (
		udp  = "udp://239.20.0.0/16?iface=eth0"
		roce = "roce://eth0"
		// The pings begin after the stream, and the listener is notified of their end.
		listen = "./fanfare ping -t '%s' -listen -q & p=$!; %s[ $s = 0 ] || exit 1; vm-wait pinged 150; kill $p; " + netemStats
		talk   = "%s[ $s = 0 ] || exit 1; ./fanfare ping -t '%s' -count 20 -interval 0s -q || exit 1; vm-signal pinged; " + netemStats
	)
	for _, c := range []struct {
		name, url string
		options   []string
	}{
		{"udp to udp", udp, nil},
		{"roce to roce", roce, nil},
		{"roce to roce, MTU 4200", roce, []string{"--mtu", "4200"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out := "got-" + strings.ReplaceAll(strings.ReplaceAll(c.name, " ", "-"), ",", "")
			r := Run{
				VMs: 2, Dir: dir,
				Commands: map[int]string{
					1: netem + fmt.Sprintf(talk, pubOn(c.url, fmt.Sprintf("-rate %d", *rate)), c.url),
					2: netem + fmt.Sprintf(listen, c.url, subOn(c.url, "", out)),
				},
				Options: append([]string{"--no-rxe", "--modules", netemModules}, c.options...),
				Timeout: 4 * time.Minute,
			}.Do(t).OK(t)
			pub, sub := wantComplete(t, dir, out, r.Out[1], r.Out[2])
			for vm := 1; vm <= 2; vm++ {
				if n := dropped(t, r.Out[vm]); n[0] == 0 {
					t.Errorf("VM %d lost no packet:\n%s", vm, r.Out[vm])
				}
			}
			if pub.Repairs == 0 || sub.Repaired == 0 {
				t.Errorf("no packet was repaired: publisher %+v, subscriber %+v", pub, sub)
			}
		})
	}
}

package lab

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// messages is how many TestPubSub publishes, and rate how many a second: a VM is
// emulated, and shares its processor with others, so that more is a test of that.
var (
	messages = flag.Int("lab.messages", 5000, "messages that TestPubSub publishes")
	rate     = flag.Int("lab.rate", 1000, "messages a second that TestPubSub publishes; 0: no limit")
)

// Reliable pub/sub between two VMs without RDMA in their kernel, with 5 % of all
// packets lost and others reordered on their way out of each: what is received
// equals what was published. Then pings go there and back, so that both have
// published and subscribed. What has the kernel's RDMA on one side or on both is
// with the tests of verbs.
func TestPubSub(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	Build(t, dir, "./cmd/fanfare")
	writeFeed(t, filepath.Join(dir, "feed"), *messages)
	const (
		udp  = "udp://239.20.0.0/16?iface=eth0"
		roce = "roce://eth0"
		// The pings begin when the stream is over, and the listener is told when they are.
		listen = "./fanfare ping -t '%s' -listen -q & p=$!; %s[ $s = 0 ] || exit 1; vm-wait pinged 150; kill $p; " + netemSays
		talk   = "%s[ $s = 0 ] || exit 1; ./fanfare ping -t '%s' -count 20 -interval 0s -q || exit 1; vm-signal pinged; " + netemSays
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
			pub, sub := wantWhole(t, dir, out, r.Out[1], r.Out[2])
			for vm := 1; vm <= 2; vm++ {
				if n := dropped(t, r.Out[vm]); n[0] == 0 {
					t.Errorf("VM %d lost nothing:\n%s", vm, r.Out[vm])
				}
			}
			if pub.Repairs == 0 || sub.Repaired == 0 {
				t.Errorf("nothing was repaired: publisher %+v, subscriber %+v", pub, sub)
			}
		})
	}
}

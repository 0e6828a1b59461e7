package lab

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// writeFeed writes n messages of 1 to 400 bytes, each with its length before
// it, as "fanfare pub -framing itch" takes them.
func writeFeed(t *testing.T, file string, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	var b []byte
	for i := range n {
		msg := bytes.Repeat(fmt.Appendf(nil, "%08d", i), 50)[:1+rng.IntN(400)]
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(msg))), msg...)
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// messages is how many TestPubSub publishes, and rate how many a second: a VM is
// emulated, and shares its processor with others, so that more is a test of that.
var (
	messages = flag.Int("lab.messages", 5000, "messages that TestPubSub publishes")
	rate     = flag.Int("lab.rate", 500, "messages a second that TestPubSub publishes; 0: no limit")
)

// Reliable pub/sub between two VMs without RDMA in their kernel, with 5 % of all
// packets lost and others reordered on their way out of each: what is received
// equals what was published. Then pings go there and back, so that both have
// published and subscribed. What has the kernel's RDMA on one side or on both is
// with the tests of verbs.
func TestPubSub(t *testing.T) {
	Need(t)
	dir := t.TempDir()
	Build(t, dir, "./cmd/fanfare")
	writeFeed(t, filepath.Join(dir, "feed"), *messages)
	const (
		udp    = "udp://239.20.0.0/16?iface=eth0"
		roce   = "roce://eth0"
		netem  = "tc qdisc add dev eth0 root netem delay 1ms 500us loss 5% && "
		listen = "{ ./fanfare ping -t '%[1]s' -listen -q & } && ./fanfare sub -t '%[1]s' -framing itch -o /tmp/got md.lab && cmp feed /tmp/got && vm-wait done && kill $!"
		talk   = "./fanfare pub -t '%[1]s' -framing itch -file feed -rate %[2]d -wait 1 md.lab && ./fanfare ping -t '%[1]s' -count 20 -interval 0s -q && vm-signal done && tc -s qdisc show dev eth0"
	)
	for _, c := range []struct {
		name, pub, sub string
		options        []string
	}{
		{"udp to udp", udp, udp, []string{"--no-rxe"}},
		{"roce to roce", roce, roce, []string{"--no-rxe"}},
		{"roce to roce, MTU 4200", roce, roce, []string{"--no-rxe", "--mtu", "4200"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := Run{
				VMs: 2, Dir: dir,
				Commands: map[int]string{1: netem + fmt.Sprintf(talk, c.pub, *rate), 2: netem + fmt.Sprintf(listen, c.sub)},
				Options:  append([]string{"--modules", "sch_netem"}, c.options...),
			}.Do(t).OK(t)
			if m := regexp.MustCompile(`dropped [1-9][0-9]`).FindString(r.Out[1]); m == "" {
				t.Errorf("no losses:\n%s", r.Out[1])
			}
		})
	}
}

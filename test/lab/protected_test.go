package lab

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/transport/sealed"
	"github.com/fanfaremq/fanfare/transport/sealed/keyring"
	"github.com/fanfaremq/fanfare/transport/signed"
)

// Sealed streams, also signed ones, over verbs between two kernels, with loss and reordering in both directions:
// the received messages equal the published ones. A capture contains neither the topic nor a message. A subscriber
// without the keys, or with another key in its trust file, receives nothing, and reports why.
func TestVerbsProtected(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	BuildRDMA(t, dir, "./cmd/fanfare")
	writeFeed(t, filepath.Join(dir, "feed"), 20_000)
	if err := keyring.Create(filepath.Join(dir, "keys"), []sealed.Key{{ID: 7, Secret: [32]byte{1, 2, 3}}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"desk", "other"} {
		key, err := signed.CreateKey(filepath.Join(dir, name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("md.> %s\n", signed.Format(key.Public().(ed25519.PublicKey)))
		if err := os.WriteFile(filepath.Join(dir, name+".trust"), []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, pub, sub string }{
		{"sealed", "?keys=keys", "?keys=keys"},
		{"sealed and signed", "?keys=keys&sign=desk.key", "?keys=keys&trust=desk.trust"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out := fmt.Sprintf("got-%d", len(c.name))
			r := Run{
				VMs: 2, Dir: dir,
				Commands: map[int]string{
					1: netem + pubOn("rdma://rxe0"+c.pub, "") + netemStats + "exit $s",
					2: netem + subOn("rdma://rxe0"+c.sub, "", out) + netemStats + "exit $s",
				},
				Options: []string{"--modules", netemModules},
				Timeout: 4 * time.Minute,
			}.Do(t).OK(t)
			pub, sub := wantComplete(t, dir, out, r.Out[1], r.Out[2])
			if pub.Repairs == 0 || sub.Repaired == 0 {
				t.Errorf("no packet was repaired: publisher %+v, subscriber %+v", pub, sub)
			}
			list := r.Packets(t, 2)
			for _, p := range list {
				for _, text := range []string{"md.lab", "00000017", "00000117"} { // parts of the messages
					if bytes.Contains(p.Payload, []byte(text)) {
						t.Fatalf("%q is readable in a packet from %v to %v", text, p.Src, p.Dst)
					}
				}
			}
			if len(list) < 1000 {
				t.Errorf("the capture has %d packets, want 1000 or more", len(list))
			}
		})
	}
	t.Run("other subscribers", func(t *testing.T) {
		t.Parallel()
		const (
			noKeys, noTrust = "this bus has no keys", "which the file of trust= does not have"
			// Both run until they have reported why they receive nothing, and a while longer, in which they might receive.
			listen      = "timeout 60 ./fanfare sub -q -t 'rdma://rxe0%s' md.lab >/tmp/says%d 2>&1 & p=\"$p $!\"; "
			waitReports = "until grep -q '" + noKeys + "' /tmp/says1 && grep -q '" + noTrust + "' /tmp/says2 || ! kill -0 $p; do sleep 0.2; done; sleep 3; kill $p; wait; cat /tmp/says*; "
		)
		r := Run{
			VMs: 2, Dir: dir,
			Commands: map[int]string{
				1: "while [ ! -e $SYNC_DIR/sig.heard ]; do echo hello; sleep 0.2; done 2>&1 | timeout 100 ./fanfare pub -q -t 'rdma://rxe0?keys=keys&sign=desk.key' md.lab; true",
				2: fmt.Sprintf(listen+listen, "", 1, "?keys=keys&trust=other.trust", 2) + waitReports + "vm-signal heard; true",
			},
			Timeout: 4 * time.Minute,
		}.Do(t).OK(t)
		for _, want := range []string{noKeys, noTrust} {
			if !bytes.Contains([]byte(r.Out[2]), []byte(want)) {
				t.Errorf("no %q in\n%s", want, r.Out[2])
			}
		}
		if bytes.Contains([]byte(r.Out[2]), []byte("hello")) {
			t.Errorf("something was delivered:\n%s", r.Out[2])
		}
	})
}

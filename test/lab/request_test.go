package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Requests over verbs between two kernels, with loss and reordering in both directions: each
// request gets its own reply, and a long reply, in many unicast packets, is complete.
func TestVerbsRequests(t *testing.T) {
	Need(t)
	t.Parallel()
	dir := t.TempDir()
	BuildRDMA(t, dir, "./cmd/fanfare")
	long := bytes.Repeat([]byte("a long reply, of many packets\n"), 3000)
	if err := os.WriteFile(filepath.Join(dir, "long"), long, 0o600); err != nil {
		t.Fatal(err)
	}
	const (
		url      = "-t rdma://rxe0"
		requests = 4
		replies  = "./fanfare reply -q " + url + " -exec 'read x; echo \"answer to $x\"' lab.ask & a=$!; ./fanfare reply -q " + url + " -exec 'cat long' lab.long & b=$!; "
	)
	r := Run{
		VMs: 2, Dir: dir,
		Commands: map[int]string{
			1: netem + fmt.Sprintf("for i in $(seq %d); do timeout 60 ./fanfare request -q %s -wait 1 -timeout 50s lab.ask \"question $i\" || exit 1; done; ", requests, url) +
				fmt.Sprintf("timeout 60 ./fanfare request -q %s -wait 1 -timeout 50s lab.long please >got || exit 1; vm-signal asked; ", url) + netemStats,
			2: netem + replies + "vm-wait asked 200; kill $a $b; " + netemStats,
		},
		Options: []string{"--modules", netemModules},
		Timeout: 5 * time.Minute,
	}.Do(t).OK(t)
	for i := 1; i <= requests; i++ {
		if want := fmt.Sprintf("answer to question %d\n", i); strings.Count(r.Out[1], want) != 1 {
			t.Errorf("want %q exactly once in\n%s", want, r.Out[1])
		}
	}
	if got, err := os.ReadFile(filepath.Join(dir, "got")); err != nil || !bytes.Equal(bytes.TrimRight(got, "\n"), bytes.TrimRight(long, "\n")) {
		t.Errorf("the long reply has %d bytes, error %v, want the file of %d", len(got), err, len(long))
	}
	if dropped(t, r.Out[1])[0]+dropped(t, r.Out[2])[0] == 0 {
		t.Errorf("no packet was lost:\n%s\n%s", r.Out[1], r.Out[2])
	}
}

//go:build rdma && linux && cgo

package verbs

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// A removed device is released when its last object is closed, and then the removal ends (rxe does not support
// disassociation), whether ids and channels were closed before and whether that was before the removal. An id that
// waits in C for the objects keeps its channel in C; otherwise the channel's memory might be reused.
func TestRemovalWithObjectsLeft(t *testing.T) {
	hosts := testHosts(t)
	if !*ownKernel {
		t.Skip("the test removes a device: -verbs.ownkernel")
	}
	h := hosts[len(hosts)-1]
	for _, first := range []bool{true, false} {
		name := "ids before the removal"
		if first {
			name = "removal before the ids"
		}
		t.Run(name, func(t *testing.T) { testRemoval(t, h, first) })
	}
}

func testRemoval(t *testing.T, h testHost, first bool) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	p, err := Open()
	must(err)
	before := cmFiles(t)
	var chs [2]rdma.EventChannel
	var ids [2]rdma.ID
	for i := range chs {
		chs[i], err = p.NewEventChannel()
		must(err)
		ids[i], err = chs[i].CreateID(rdma.PortSpaceUDP, nil)
		must(err)
		must(ids[i].Bind(h.addr))
	}
	dev, err := ids[0].Device()
	must(err)
	if other, err := ids[1].Device(); err != nil || other != dev {
		t.Fatalf("ids on one device have %v and %v, error %v, want the same", dev, other, err)
	}
	pd, err := dev.AllocPD()
	must(err)
	must(ids[1].JoinMulticast(testGroup(5), nil))
	ev, err := chs[1].GetEvent(ctx)
	must(err)
	must(ev.Ack())

	removed := make(chan struct{})
	remove := func() {
		go func() {
			defer close(removed)
			command(t, "rdma", "link", "delete", h.device)
		}()
	}
	if first {
		remove()
		for _, ch := range chs {
			for {
				ev, err := ch.GetEvent(ctx)
				must(err)
				must(ev.Ack())
				if ev.Type == rdma.EventDeviceRemoval {
					break
				}
			}
		}
	}
	for i := range ids {
		must(ids[i].Destroy(ctx))
		must(chs[i].Close())
	}
	if n := cmFiles(t); n != before+1 {
		t.Errorf("%d channels are open in C, want only that of the waiting id", n-before)
	}
	for range 4 { // to reuse the memory of the channels
		ch, err := p.NewEventChannel()
		must(err)
		defer ch.Close()
	}
	if !first {
		remove()
		for {
			names, _ := p.Devices() // it fails if there is none
			if !slices.Contains(names, h.device) {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	select {
	case <-removed:
		t.Error("the device was removed while it had an object")
	default:
	}
	must(pd.Close())
	select {
	case <-removed:
	case <-time.After(testTimeout):
		t.Fatal("the removal does not end: the device is still open")
	}
	if n := cmFiles(t); n != before+2*4 { // each in C and in the netpoller
		t.Errorf("%d files of channels are open, want 2 for each of 4", n-before)
	}
	for _, d := range host.cm {
		if d == dev {
			t.Error("the device is still in use")
		}
	}
	command(t, "rdma", "link", "add", h.device, "type", "rxe", "netdev", h.netdev)
}

// cmFiles returns the number of open files of the connection manager in the process.
func cmFiles(t *testing.T) (n int) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasSuffix(to, "/rdma_cm") {
			n++
		}
	}
	return n
}

package shm

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/pubsub"
)

// small returns a directory in a file system with the given number of MiB.
func small(t *testing.T, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		testenv.Skip(t, "no memory file system can be mounted: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fill uses up all memory of a directory, except for a page.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const page = 4096
	size := int64(0)
	for unix.Fallocate(int(f.Fd()), 0, size, page) == nil {
		size += page
	}
	if err := f.Truncate(size - page); err != nil {
		t.Fatal(err)
	}
}

// When the host has no free memory, heartbeats still arrive by shared memory but data does not. A
// subscriber that also has the network leg receives everything by that. docs/protocol §23.4.
func TestFullMemoryLosesNothing(t *testing.T) {
	dir := small(t, "8m")
	wire := fmt.Sprintf("udp://?iface=lo&port=%d", testenv.Port(t))
	open := func() *pubsub.Bus {
		bus, err := pubsub.Config{RecoveryDeadline: time.Minute, Silence: 30 * time.Second}.Open(t.Context(), wire, "shm://full?dir="+dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { bus.Close() })
		return bus
	}
	from, to := open(), open()
	pub, err := from.Publisher(topic)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := to.Subscribe(topic)
	if err != nil {
		t.Fatal(err)
	}
	if err := pub.WaitSubscribers(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	fill(t, dir)
	for i := range byte(100) {
		msg := bytes.Repeat([]byte{i}, 20_000)
		if err := pub.Publish(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		if err := pub.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m, err := sub.Next(t.Context()); err != nil || !bytes.Equal(m.Data, msg) {
			t.Fatalf("got %d bytes, want %d: %v", len(m.Data), len(msg), err)
		}
	}
	if lacked := from.Stats().Transport.SendNoMemory; lacked == 0 {
		t.Error("memory was sufficient for all messages")
	}
	for _, g := range to.Stats().Groups {
		if g.Lost > 0 {
			t.Errorf("%d packets are lost, want none", g.Lost)
		}
	}
}

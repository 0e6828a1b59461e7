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

// small is a directory in a file system that has memory for so many MiB.
func small(t *testing.T, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		testenv.Skip(t, "no memory file system can be mounted: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fill takes all memory that a directory has, but for a page.
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

// When the host has no memory left, heartbeats still come by shared memory and data does not. A subscriber that is also on the
// wire gets all from there. docs/protocol §23.4.
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
			t.Fatalf("%d bytes came, not %d: %v", len(m.Data), len(msg), err)
		}
	}
	if lacked := from.Stats().Transport.SendNoMemory; lacked == 0 {
		t.Error("there was memory for all")
	}
	for _, g := range to.Stats().Groups {
		if g.Lost > 0 {
			t.Errorf("%d packets are lost", g.Lost)
		}
	}
}

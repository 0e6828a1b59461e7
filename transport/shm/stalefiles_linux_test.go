package shm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// An endpoint that leaves after its members file was replaced removes nothing, because it does not hold the lock of the
// new one. Otherwise it could split the new fabric in two. docs/protocol §28.2.
func TestLeaveWithOldMembersFile(t *testing.T) {
	cfg := Config{Name: "x", Dir: ownDir(t)}
	a, b := mustOpen(t, cfg), mustOpen(t, cfg)
	a.fabric.remove(membersName)           // as the last endpoint does when it leaves
	c, err := enterFabric(cfg, noEndpoint) // while another one joins
	if err != nil {
		t.Fatal(err)
	}
	defer c.withdraw()
	end(a)
	end(b)
	if !c.current() {
		t.Error("the members file of a starting endpoint was removed")
	}
}

// When endpoints leave at the same time, one of them removes the fabric: those that do not get the lock rely on its
// holder. docs/protocol §28.2.
func TestLeaveAtOnce(t *testing.T) {
	const drafts = 10_000 // so that removing them takes a while
	cfg := Config{Name: "x", Dir: ownDir(t)}
	a, b := mustOpen(t, cfg), mustOpen(t, cfg)
	draft := func(i int) string { return filepath.Join(a.fabric.path, fmt.Sprint(draftPrefix, i)) }
	for i := range drafts {
		if err := os.WriteFile(draft(i), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		end(a)
	}()
	for _, err := os.Lstat(draft(0)); err == nil; _, err = os.Lstat(draft(0)) { // they are removed in ascending or descending order
		if _, err := os.Lstat(draft(drafts - 1)); err != nil {
			break
		}
	}
	end(b) // meanwhile: a has seen that b is alive
	<-gone
	if left := files(cfg.Dir); len(left) > 0 {
		t.Errorf("%d files are left, among them %s, want none", len(left), left[0])
	}
}

// A file that is being made and is not locked yet is not checked. docs/protocol §28.2.
func TestDeserted(t *testing.T) {
	h, err := enterFabric(Config{Name: "x", Dir: ownDir(t)}, noEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer h.withdraw()
	for _, size := range []int{0, 1} {
		if err := os.WriteFile(filepath.Join(h.path, fileName(7)), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := h.deserted(); got != (size > 0) {
			t.Errorf("deserted with an unlocked file of %d bytes: %v, want %v", size, got, size > 0)
		}
	}
}

// An endpoint that starts while others remove the directory starts again, whatever it was making there. docs/protocol
// §28.2.
func TestRemovedDuringOpen(t *testing.T) {
	tries := 0
	h, err := enterFabric(Config{Name: "x", Dir: ownDir(t)}, func(h *fabric) error {
		if tries++; tries < 3 {
			if err := os.RemoveAll(h.path); err != nil {
				t.Fatal(err)
			}
		}
		f, err := h.makeFile(7, 1)
		if err == nil {
			f.remove(h)
			f.unmap()
			f.close()
		}
		return err
	})
	if err != nil || tries != 3 {
		t.Fatalf("%d tries, error %v, want 3", tries, err)
	}
	h.withdraw()
}

// A file with the name of an endpoint that is not a regular file does not count as one: it is removed if possible, uses
// no place, is not connected, and does not keep the fabric alive. docs/protocol §28.2.
func TestNotAnEndpointFile(t *testing.T) {
	cfg := Config{Name: "x", Dir: ownDir(t)}
	a := mustOpen(t, cfg)
	n := uint64(0)
	next := func() string { n++; return filepath.Join(a.fabric.path, fileName(n)) }
	put := func() {
		for range lanes {
			if err := os.Symlink("/nowhere", next()); err != nil {
				t.Fatal(err)
			}
		}
		socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: next()})
		if err != nil {
			t.Fatal(err)
		}
		socket.SetUnlinkOnClose(false)
		if err := errors.Join(socket.Close(), os.Mkdir(next(), 0o700), unix.Mkfifo(next(), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	put()
	a.fabric.announce()
	a.scanIfNeeded()
	if s := a.Stats(); s.ReceiveErrors != 0 || a.again.Load() != 0 {
		t.Errorf("%d receive errors, or it scans again, want neither", s.ReceiveErrors)
	}
	b := mustOpen(t, cfg)
	if got := files(a.fabric.path); len(got) != 5 {
		t.Errorf("%d files exist, among them %s, want 5", len(got), got[0])
	}
	put()
	full := next()
	if err := errors.Join(os.Mkdir(full, 0o700), os.WriteFile(filepath.Join(full, "x"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	end(b)
	end(a)
	if got := files(a.fabric.path); len(got) != 2 { // which must not be removed
		t.Errorf("files left: %q, want the 2 of the other endpoint", got)
	}
	if err := os.RemoveAll(full); err != nil {
		t.Fatal(err)
	}
	end(mustOpen(t, cfg))
}

// A file that a member of the group has renamed to the name of the members file is neither written to nor enlarged.
// docs/protocol §28.1.
func TestMembersFileMoved(t *testing.T) {
	for _, group := range []string{"", strconv.Itoa(os.Getegid())} {
		cfg := Config{Name: "x", Dir: ownDir(t), Group: group}
		h, err := enterFabric(cfg, noEndpoint)
		if err != nil {
			t.Fatal(err)
		}
		moved, want := filepath.Join(h.path, membersName), bytes.Repeat([]byte{0xff}, 100)
		h.leave()
		if err := errors.Join(os.Remove(moved), os.WriteFile(moved, want, 0o600)); err != nil {
			t.Fatal(err)
		}
		if tr, err := open(cfg); err == nil || !strings.Contains(err.Error(), moved+" is not a members file") {
			t.Errorf("open: %v, error %v, want that %s is not a members file", tr, err, moved)
		}
		if got, err := os.ReadFile(moved); err != nil || !bytes.Equal(got, want) {
			t.Errorf("the file's content is % x, error %v, want no change", got, err)
		}
		os.RemoveAll(filepath.Dir(filepath.Dir(moved)))
	}
}

// The error for too many endpoints says what counts as one. docs/protocol §28.2.
func TestFull(t *testing.T) {
	cfg := Config{Name: "x", Dir: ownDir(t)}
	h, err := enterFabric(cfg, noEndpoint)
	if err != nil {
		t.Fatal(err)
	}
	var locked []*os.File
	for i := range uint64(lanes) {
		f, err := os.Create(filepath.Join(h.path, fileName(i+1)))
		if err == nil {
			err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		}
		if err != nil {
			t.Fatal(err)
		}
		locked = append(locked, f)
	}
	h.unlock()
	if _, err := open(cfg); err == nil || !strings.Contains(err.Error(), "has 256 endpoints, which is the limit (one for each bus)") || errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for _, f := range locked {
		f.Close()
	}
	h.removeDeserted()
	h.leave()
}

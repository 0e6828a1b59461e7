//go:build rdma && linux && cgo

package verbs

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/rdma"
)

// A descriptor with only the event POLLERR, such as that of a removed device, ends the watch with an error. Here it is
// the writing end of a full pipe without a reader.
func TestWatchFails(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[1])
	for full := make([]byte, 4096); ; {
		if _, err := unix.Write(fds[1], full); err != nil {
			break
		}
	}
	s := newSource()
	w, err := newWatch("watch", fds[1], s.readable, s.fail)
	if err != nil {
		t.Fatal(err)
	}
	defer w.stop()
	try := func() (int, error) { return 0, s.empty() }
	if _, err := try(); err != rdma.ErrNoEvent {
		t.Fatalf("before the watch fails, the error is %v, want %v", err, rdma.ErrNoEvent)
	}
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := await(context.Background(), &s, try)
			ended <- err
		}()
	}
	unix.Close(fds[0])
	for range 2 {
		wantErrno(t, "waiting", <-ended, syscall.EIO)
	}
	if _, err := try(); errors.Is(err, net.ErrClosed) {
		t.Errorf("not closed: %v", err)
	}
}

// Stopping a watch does not count as a failure.
func TestWatchIsStopped(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	s := newSource()
	w, err := newWatch("watch", fds[0], s.readable, s.fail)
	if err != nil {
		t.Fatal(err)
	}
	w.stop()
	if err := s.empty(); err != rdma.ErrNoEvent {
		t.Error(err)
	}
	if _, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GETFD, 0); err != nil {
		t.Errorf("the watched descriptor is closed: %v", err)
	}
}

// A file that cannot be waited for is rejected immediately, with the reason.
func TestWatchOfAFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := newWatch("watch", int(f.Fd()), func() {}, func(*rdma.Error) {}); err == nil {
		t.Error("a watch of a regular file was accepted")
	}
	_, err = newWatch("watch", -1, func() {}, func(*rdma.Error) {})
	wantErrno(t, "an invalid descriptor", err, syscall.EBADF)
	wantErrno(t, "an error that wraps an errno", watchError("watch", &os.PathError{Op: "x", Err: syscall.EPERM}), syscall.EPERM)
}

//go:build rdma && linux && cgo

package verbs

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/rdma"
)

// watch waits with Go's netpoller until a file descriptor of rdma-core becomes readable, in a goroutine that runs until
// stop or until waiting fails.
type watch struct {
	file     *os.File
	stopping atomic.Bool
	done     chan struct{}
}

// newWatch makes fd non-blocking. The watch's goroutine calls readable once, and then whenever input has arrived, with
// one call for several events. If waiting fails, it finally calls failed with the reason. The library still owns fd: a
// duplicate is watched.
func newWatch(op string, fd int, readable func(), failed func(*rdma.Error)) (*watch, error) {
	// Duplicates share the file's flags, so that the library's calls do not block, too.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, watchError(op, err)
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, watchError(op, err)
	}
	w := &watch{file: os.NewFile(uintptr(dup), op), done: make(chan struct{})}
	conn, err := w.file.SyscallConn()
	if err == nil {
		err = w.file.SetReadDeadline(time.Time{}) // the netpoller does not support every file
	}
	if err != nil {
		w.file.Close()
		return nil, watchError(op, err)
	}
	go func() {
		defer close(w.done)
		// The function always returns false, so that Read waits for the next edge and misses none. Read ends when the file is
		// closed, or when the kernel reports only POLLERR.
		err := conn.Read(func(uintptr) bool { readable(); return false })
		if !w.stopping.Load() {
			failed(watchError(op, err))
		}
	}()
	return w, nil
}

func watchError(op string, err error) *rdma.Error {
	errno := syscall.EIO
	errors.As(err, &errno)
	return rdma.Errorf(op, errno, "cannot wait for events: %v", err)
}

// stop ends the goroutine. After it, readable is not called, and the library may close its descriptor.
func (w *watch) stop() {
	w.stopping.Store(true)
	w.file.Close()
	<-w.done
}

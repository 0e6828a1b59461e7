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

// watch waits on Go's netpoller for a file descriptor of rdma-core to become readable, in a goroutine that lives until
// stop, or until it cannot wait any more.
type watch struct {
	file     *os.File
	stopping atomic.Bool
	done     chan struct{}
}

// newWatch makes fd non-blocking and calls readable once, and then whenever input has arrived: in the
// watch's goroutine, and once for several events. If waiting fails, it calls failed with the reason,
// last and once. fd remains the library's: a duplicate is watched.
func newWatch(op string, fd int, readable func(), failed func(*rdma.Error)) (*watch, error) {
	// Duplicates share the file's flags, so that the library's calls do not block either.
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
		err = w.file.SetReadDeadline(time.Time{}) // the netpoller does not have every file
	}
	if err != nil {
		w.file.Close()
		return nil, watchError(op, err)
	}
	go func() {
		defer close(w.done)
		// The function never says that it has read all, so that Read waits for the next edge again and misses none in
		// between. It ends when the file is closed, or when the kernel says of it nothing but POLLERR.
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

// stop ends the goroutine; readable is not called any more when it returns. The library may close its descriptor then.
func (w *watch) stop() {
	w.stopping.Store(true)
	w.file.Close()
	<-w.done
}

package roce

import (
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller is an epoll descriptor.
type poller struct{ fd int }

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create", err)
	}
	return &poller{fd}, nil
}

func (p *poller) add(fd int, id int32, events uint32) error {
	return p.ctl(unix.EPOLL_CTL_ADD, fd, id, events)
}

// again arms a descriptor with EPOLLONESHOT.
func (p *poller) again(fd int, id int32, events uint32) error {
	return p.ctl(unix.EPOLL_CTL_MOD, fd, id, events)
}

func (p *poller) ctl(op, fd int, id int32, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: id}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, op, fd, &ev))
}

// remove fails only for what is not there.
func (p *poller) remove(fd int) { _ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil) }

// ready returns how many of evs it filled in with what is ready now.
func (p *poller) ready(evs []unix.EpollEvent) int {
	// It cannot block, so the scheduler need not know.
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&evs[0])), uintptr(len(evs)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// forever is a timeout without end.
const forever = -1 * time.Millisecond

// block waits until something is ready, or the timeout, rounded up to
// milliseconds, has passed. Interrupted by a signal it returns early.
func (p *poller) block(evs []unix.EpollEvent, timeout time.Duration) {
	if timeout > 0 {
		timeout = min(timeout+time.Millisecond-1, time.Hour)
	}
	_, _, _ = unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&evs[0])), uintptr(len(evs)), uintptr(timeout.Milliseconds()), 0, 0)
}

// close closes it. What is asked of it later fails, and reaches no descriptor that
// has got its number.
func (p *poller) close() {
	unix.Close(p.fd)
	p.fd = -1
}

// signal is an eventfd. It is watched edge-triggered: each write is told once,
// and need not be read away.
type signal struct {
	mu     sync.Mutex // held to write, and to close
	fd     int
	closed bool
}

func (s *signal) open() (err error) {
	s.fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return os.NewSyscallError("eventfd", err)
}

func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		one := uint64(1)
		unix.RawSyscall(unix.SYS_WRITE, uintptr(s.fd), uintptr(unsafe.Pointer(&one)), 8)
	}
}

func (s *signal) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		unix.Close(s.fd)
	}
}

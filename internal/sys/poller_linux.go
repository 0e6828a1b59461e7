package sys

import (
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Poller is an epoll descriptor (epoll(7)): it reports which of many descriptors are ready. Descriptors
// are known by an id of the caller's, which is not below minID.
type Poller struct{ fd int }

// minID is the least id of a caller's: those below are a Waiter's own.
const minID = -1 << 30

// NewPoller makes one.
func NewPoller() (*Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	return &Poller{fd}, nil
}

// Add watches a descriptor for events (EPOLLIN …). Without EPOLLET it is reported again and again as
// long as it is ready.
func (p *Poller) Add(fd int, id int32, events uint32) error {
	return p.control(unix.EPOLL_CTL_ADD, fd, id, events)
}

// AddPoller watches what another Poller watches: it is ready when any of that is.
func (p *Poller) AddPoller(other *Poller, id int32) error { return p.Add(other.fd, id, unix.EPOLLIN) }

// Descriptor is the descriptor itself: readable while any is ready that it watches.
func (p *Poller) Descriptor() int { return p.fd }

// Rearm watches a descriptor again that was added with EPOLLONESHOT and was named.
func (p *Poller) Rearm(fd int, id int32, events uint32) error {
	return p.control(unix.EPOLL_CTL_MOD, fd, id, events)
}

func (p *Poller) control(op, fd int, id int32, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: id}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, op, fd, &ev))
}

// Remove ends Add. Closing a descriptor does the same only if no other process has it, as a child
// between fork and exec does. It fails only for a descriptor that was not added.
func (p *Poller) Remove(fd int) { _ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil) }

// Ready fills evs with the ready descriptors and returns that part of it. The id is the field Fd.
func (p *Poller) Ready(evs []unix.EpollEvent) []unix.EpollEvent {
	// It cannot block, so the scheduler need not know.
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&evs[0])),
		uintptr(len(evs)), 0, 0, 0)
	if errno != 0 {
		return nil
	}
	return evs[:n]
}

// Forever is a timeout without end.
const Forever = -1 * time.Millisecond

// Block is Ready, but waits until something is ready or the timeout, rounded up to
// milliseconds, has passed. Interrupted by a signal it returns early.
func (p *Poller) Block(evs []unix.EpollEvent, timeout time.Duration) []unix.EpollEvent {
	if timeout > 0 {
		timeout = min(timeout+time.Millisecond-1, time.Hour)
	}
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&evs[0])),
		uintptr(len(evs)), uintptr(timeout.Milliseconds()), 0, 0)
	if errno != 0 {
		return nil
	}
	return evs[:n]
}

// Close closes it. Later calls fail, and reach no other descriptor that has got its number.
func (p *Poller) Close() {
	if p.fd >= 0 {
		unix.Close(p.fd)
		p.fd = -1
	}
}

// Signal is an eventfd (eventfd(2)), by which any goroutine ends the waiting of another one.
type Signal struct {
	mu sync.Mutex // held to write, and to close
	fd int        // or -1: closed
}

// NewSignal makes a signal that a Poller watches.
func NewSignal(p *Poller, id int32) (*Signal, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	s := &Signal{fd: fd}
	// Edge-triggered: each write is reported once, and need not be read.
	if err := p.Add(fd, id, unix.EPOLLIN|unix.EPOLLET); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Raise makes it ready, once. After Close it does nothing.
func (s *Signal) Raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd >= 0 {
		one := uint64(1)
		unix.RawSyscall(unix.SYS_WRITE, uintptr(s.fd), uintptr(unsafe.Pointer(&one)), 8)
	}
}

// Close closes it.
func (s *Signal) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}

package sys

import (
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Poller is an epoll descriptor (epoll(7)): it reports which of many descriptors are ready. The caller chooses an id,
// minID or more, for each descriptor.
type Poller struct{ fd int }

// minID is the lowest id that a caller may choose: those below are used by Waiter.
const minID = -1 << 30

// NewPoller opens a Poller.
func NewPoller() (*Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	return &Poller{fd}, nil
}

// Add watches a descriptor for events (EPOLLIN …). Without EPOLLET every call of Ready reports it as long as it is
// ready.
func (p *Poller) Add(fd int, id int32, events uint32) error {
	return p.control(unix.EPOLL_CTL_ADD, fd, id, events)
}

// AddPoller watches another Poller: it is ready when any of its descriptors is.
func (p *Poller) AddPoller(other *Poller, id int32) error { return p.Add(other.fd, id, unix.EPOLLIN) }

// Descriptor returns the epoll descriptor, which is readable while any watched descriptor is ready.
func (p *Poller) Descriptor() int { return p.fd }

// Rearm watches a descriptor again that was added with EPOLLONESHOT and was reported.
func (p *Poller) Rearm(fd int, id int32, events uint32) error {
	return p.control(unix.EPOLL_CTL_MOD, fd, id, events)
}

func (p *Poller) control(op, fd int, id int32, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: id}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(p.fd, op, fd, &ev))
}

// Remove stops watching a descriptor. Closing the descriptor does the same only if no other process has it, for example
// a child between fork and exec. It fails only for a descriptor that was not added.
func (p *Poller) Remove(fd int) { _ = unix.EpollCtl(p.fd, unix.EPOLL_CTL_DEL, fd, nil) }

// Ready fills evs with the ready descriptors and returns the filled part. The field Fd has the id.
func (p *Poller) Ready(evs []unix.EpollEvent) []unix.EpollEvent {
	// It cannot block, so the scheduler need not be informed.
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd), uintptr(unsafe.Pointer(&evs[0])),
		uintptr(len(evs)), 0, 0, 0)
	if errno != 0 {
		return nil
	}
	return evs[:n]
}

// Forever is the timeout of a wait without a time limit.
const Forever = -1 * time.Millisecond

// Block waits until a descriptor is ready or the timeout, rounded up to milliseconds, has passed, and returns the ready
// ones as Ready does. A signal ends it early.
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

// Close closes the epoll descriptor. Later calls fail, and do not reach another descriptor that reuses its number.
func (p *Poller) Close() {
	if p.fd >= 0 {
		unix.Close(p.fd)
		p.fd = -1
	}
}

// Signal is an eventfd (eventfd(2)), by which any goroutine ends the wait of another one.
type Signal struct {
	mu sync.Mutex // held while writing and closing
	fd int        // -1: closed
}

// NewSignal opens a signal and adds it to a Poller with an id.
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

// Raise makes the Poller report the signal once. After Close it does nothing.
func (s *Signal) Raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd >= 0 {
		one := uint64(1)
		unix.RawSyscall(unix.SYS_WRITE, uintptr(s.fd), uintptr(unsafe.Pointer(&one)), 8)
	}
}

// Close closes the eventfd.
func (s *Signal) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}

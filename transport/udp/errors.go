package udp

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/fanfaremq/fanfare/transport"
)

// SendError is what the system says to a Send or a Reply that it refused for
// good. It unwraps to the syscall.Errno.
type SendError struct {
	Op  string // the system call
	Err error
}

func (e *SendError) Error() string { return fmt.Sprintf("udp: %s: %v", e.Op, e.Err) }

func (e *SendError) Unwrap() error { return e.Err }

// busyError is transport.ErrBusy together with the errno behind it. Its values
// are made in advance: being busy must not cost an allocation.
type busyError struct {
	errno syscall.Errno
}

var (
	errAgain  error = &busyError{syscall.EAGAIN}
	errNoBufs error = &busyError{syscall.ENOBUFS}
)

func (e *busyError) Error() string { return fmt.Sprintf("udp: %v: %v", transport.ErrBusy, e.errno) }

func (e *busyError) Is(target error) bool { return target == transport.ErrBusy || target == e.errno }

// groupLimit marks the errors by which the system says that this is one group
// too many: the membership limit (ENOBUFS, ip_mc_join_group in Linux'
// net/ipv4/igmp.c), the memory for memberships (ENOMEM), the limit on open
// files.
func groupLimit(err error) error {
	for _, errno := range []syscall.Errno{syscall.ENOBUFS, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, errno) {
			return fmt.Errorf("%w: %w", transport.ErrGroupLimit, err)
		}
	}
	return err
}

package udp

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/fanfaremq/fanfare/transport"
)

// SendError is a permanent error of the system for a Send or a Reply. It unwraps to the syscall.Errno.
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

// limits are the errors of the system for one group too many, with the way to raise the limit: on memberships
// (ip_mc_join_group in Linux' net/ipv4/igmp.c), on their memory (sock_kmalloc in net/core/sock.c), on open files.
var limits = []struct {
	errno  syscall.Errno
	advice string
}{
	{syscall.ENOBUFS, "a socket may join no more groups; raise net.ipv4.igmp_max_memberships (sysctl), which is 20 by default"},
	{syscall.ENOMEM, "the kernel has no memory for the membership; raise net.core.optmem_max (sysctl)"},
	{syscall.EMFILE, "each group needs an open file, and the process has reached its limit; raise it (ulimit -n)"},
	{syscall.ENFILE, "each group needs an open file, and the system has reached its limit; raise fs.file-max (sysctl)"},
}

// noFiles adds a remedy to an error about the limit on open files.
func noFiles(err error) error {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return fmt.Errorf("%w: raise the limit of open files of this process (ulimit -n)", err)
	case errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: raise the limit of open files of this host, fs.file-max (sysctl)", err)
	}
	return err
}

// groupLimit makes an error in limits match transport.ErrGroupLimit, and adds the remedy.
func groupLimit(err error) error {
	for _, l := range limits {
		if errors.Is(err, l.errno) {
			return fmt.Errorf("%w: %s: %w", transport.ErrGroupLimit, l.advice, err)
		}
	}
	return err
}

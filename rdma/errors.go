package rdma

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// ENOTSUPP is errno 524, which is internal to the kernel but reaches users all the same: joining an IPv6 group on
// RoCEv2 gives it (kernel core/cma.c, cma_iboe_join_multicast). It matches ErrNotSupported.
const ENOTSUPP = syscall.Errno(524)

// ErrNotSupported is matched by every Error with an errno of something that is not supported: ENOTSUPP, EOPNOTSUPP,
// ENOTSUP, ENOSYS.
var ErrNotSupported = errors.New("rdma: not supported")

// ErrNoEvent is what TryGetEvent and its like return when there is nothing to retrieve now. It matches syscall.EAGAIN.
var ErrNoEvent error = &Error{Op: "get event", Errno: syscall.EAGAIN, Detail: "none is waiting"}

// Error is a failed call. Op names it. Errno is exactly the error number that rdma-core or the kernel gives for the
// failure, so errors.Is(err, syscall.EINVAL) works. Detail describes in words what was wrong.
type Error struct {
	Op     string
	Errno  syscall.Errno
	Detail string
	// Closed means that the object was closed or is being closed: the error then matches net.ErrClosed as well as Errno.
	Closed bool
}

func (e *Error) Error() string {
	text := e.Errno.Error()
	if e.Errno == ENOTSUPP {
		text = "not supported (errno 524)"
	}
	if e.Detail == "" {
		return fmt.Sprintf("rdma: %s: %s", e.Op, text)
	}
	return fmt.Sprintf("rdma: %s: %s: %s", e.Op, e.Detail, text)
}

// Unwrap returns the errno.
func (e *Error) Unwrap() error { return e.Errno }

// Is matches ErrNotSupported and net.ErrClosed, in addition to the errno itself.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrNotSupported:
		return e.Errno == ENOTSUPP || e.Errno == syscall.EOPNOTSUPP || e.Errno == syscall.ENOTSUP || e.Errno == syscall.ENOSYS
	case net.ErrClosed:
		return e.Closed
	}
	return false
}

// Errorf builds an Error; providers use it.
func Errorf(op string, errno syscall.Errno, detail string, args ...any) *Error {
	return &Error{Op: op, Errno: errno, Detail: fmt.Sprintf(detail, args...)}
}

// ClosedError is the error of a call on a closed object: it matches net.ErrClosed and EBADF.
func ClosedError(op, object string) *Error {
	return &Error{Op: op, Errno: syscall.EBADF, Detail: object + " is closed", Closed: true}
}

// PostError is a failed PostSend or PostRecv: the work requests before Index were posted, the one at Index was refused,
// those after it were not looked at. It is bad_wr of ibv_post_send(3) and ibv_post_recv(3).
type PostError struct {
	Index int
	WRID  uint64
	Err   *Error
}

func (e *PostError) Error() string {
	return fmt.Sprintf("%v (work request %d, id %d)", e.Err, e.Index, e.WRID)
}

// Unwrap returns the refusal.
func (e *PostError) Unwrap() error { return e.Err }

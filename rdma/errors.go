package rdma

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// ENOTSUPP is errno 524, which is internal to the kernel but is returned to programs that join an IPv6 group on RoCEv2
// (kernel core/cma.c, cma_iboe_join_multicast). It matches ErrNotSupported.
const ENOTSUPP = syscall.Errno(524)

// ErrNotSupported is matched by every Error with the errno ENOTSUPP, EOPNOTSUPP, ENOTSUP or ENOSYS.
var ErrNotSupported = errors.New("rdma: not supported")

// ErrNoEvent is returned by calls such as TryGetEvent when no event is pending. It matches syscall.EAGAIN.
var ErrNoEvent error = &Error{Op: "get event", Errno: syscall.EAGAIN, Detail: "no event is pending"}

// Error is the error of a failed call. Op names the call. Errno is the error number that rdma-core or the kernel
// returns for the failure, so errors.Is(err, syscall.EINVAL) works. Detail describes the reason.
type Error struct {
	Op     string
	Errno  syscall.Errno
	Detail string
	// Closed: the object was closed or is being closed. The error then matches net.ErrClosed as well as Errno.
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

// Errorf makes an Error, for providers. detail is a format (fmt.Sprintf) for args.
func Errorf(op string, errno syscall.Errno, detail string, args ...any) *Error {
	return &Error{Op: op, Errno: errno, Detail: fmt.Sprintf(detail, args...)}
}

// ClosedError is the error of a call on a closed object: it matches net.ErrClosed and EBADF.
func ClosedError(op, object string) *Error {
	return &Error{Op: op, Errno: syscall.EBADF, Detail: object + " is closed", Closed: true}
}

// PostError is the error of a failed PostSend or PostRecv: the work requests before Index were posted, the one at Index
// was refused, and later ones were ignored, like bad_wr of ibv_post_send(3) and ibv_post_recv(3).
type PostError struct {
	Index int
	WRID  uint64
	Err   *Error
}

func (e *PostError) Error() string {
	return fmt.Sprintf("%v (work request %d, id %d)", e.Err, e.Index, e.WRID)
}

// Unwrap returns Err.
func (e *PostError) Unwrap() error { return e.Err }

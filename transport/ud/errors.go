package ud

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
)

var (
	errClosed   = fmt.Errorf("ud: %w", net.ErrClosed)
	errNoPeer   = fmt.Errorf("ud: %w", transport.ErrNoPeer)
	errBusy     = fmt.Errorf("ud: %w", transport.ErrBusy)
	errNotReady = fmt.Errorf("ud: %w", transport.ErrNotReady)
	errAway     = fmt.Errorf("ud: the port is down, or has lost its address: %w", transport.ErrNotReady)
	// errTooLong is the error of a packet that the port refuses because its MTU was reduced.
	errTooLong = fmt.Errorf("ud: the port's MTU was reduced below the packet size, raise it or restart this process: %w: %w", transport.ErrNotReady, syscall.EMSGSIZE)
	errFlushed = errors.New("the queue pair is in error")
)

func named(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("ud: %s: %w", what, err)
}

// registering is the error of registering memory, with a remedy.
func registering(bytes int, err error) error {
	if errors.Is(err, syscall.ENOMEM) {
		return fmt.Errorf("register %d bytes: %w; raise the limit on locked memory (ulimit -l, LimitMEMLOCK=), or make queues and windows smaller", bytes, err)
	}
	return fmt.Errorf("register %d bytes: %w", bytes, err)
}

// explain adds an explanation with a remedy to the errno of a failed join. answer: the fabric refused it.
func explain(err error, answer bool, link rdma.LinkLayer) error {
	switch {
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w: %w", transport.ErrGroupLimit, err)
	case answer && errors.Is(err, syscall.EINVAL) && link == rdma.LinkLayerInfiniBand:
		// The kernel returns EINVAL for every status of the subnet administrator (core/sa_query.c, recv_handler).
		return fmt.Errorf("the subnet manager refuses; most likely it has no multicast LID left, or the port's MTU or rate is less than the group's: %w: %w", transport.ErrGroupLimit, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("the port's IPoIB interface is down; bring it up: %w", err)
	case errors.Is(err, syscall.ETIMEDOUT):
		return fmt.Errorf("the subnet manager does not answer: %w", err)
	}
	return err
}

// unanswered reports whether an attempt failed without a refusal.
func unanswered(err error) bool {
	return errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EINTR)
}

// noSendOnly reports whether an error can mean that the subnet manager does not support send-only members: EINVAL is
// any refusal of the subnet administrator, and kernels before 5 query the capability first and return EOPNOTSUPP.
func noSendOnly(err error, answer bool) bool {
	return answer && errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP)
}

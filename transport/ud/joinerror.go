package ud

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
)

// Explanations of join errors, with remedies.

// joinError is the error of an attempt to join. answer: the fabric refused it.
func (m *member) joinError(err error, answer bool) error {
	return fmt.Errorf("ud: join %v as %v: %w", m.t.addrs[m.group], m.role, m.explain(err, answer))
}

// explain adds an explanation to an errno.
func (m *member) explain(err error, answer bool) error {
	switch {
	case errors.Is(err, syscall.ENOMEM):
		return fmt.Errorf("%w: %w", transport.ErrGroupLimit, err)
	case answer && errors.Is(err, syscall.EINVAL) && m.t.verbs.local.LinkLayer == rdma.LinkLayerInfiniBand:
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

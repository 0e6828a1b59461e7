package roce

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
)

// Queue pair numbers are leased for the whole host, or network namespace: a process has a number as long as it holds
// the abstract unix socket of its name (unix(7)). No other process can bind that name, and it ends with the process,
// even when killed. Other processes send datagrams that they received for the queue pair to the same socket.

// leaseName is the abstract name of a number.
func leaseName(qpn rdma.QPN) string { return fmt.Sprintf("@fanfare/roce/%06x", uint32(qpn)) }

// firstQPN leaves out QP0 and QP1, and a few more, as rxe does.
const firstQPN = 17

// leaseTries bounds how many numbers are tried. They are drawn from 24 bits, so
// one is free at once unless there are millions.
const leaseTries = 64

// leaseQPN takes a free number.
func leaseQPN() (rdma.QPN, *socket, error) {
	for range leaseTries {
		qpn := firstQPN + rdma.QPN(rand.Uint32N(uint32(rdma.MulticastQPN)-firstQPN))
		s, err := lease(qpn)
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		return qpn, s, err
	}
	return 0, nil, rdma.Errorf("create QP", syscall.ENOMEM, "%d queue pair numbers in a row are taken on this host", leaseTries)
}

func lease(qpn rdma.QPN) (*socket, error) {
	const op = "lease QPN"
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, failed(op, os.NewSyscallError("socket", err))
	}
	s := &socket{fd: fd, kind: leaseSocket, qpn: qpn}
	err = cmp.Or(
		sys.Set(fd, "SO_PASSCRED", unix.SOL_SOCKET, unix.SO_PASSCRED, 1),
		os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrUnix{Name: leaseName(qpn)})),
	)
	if err != nil {
		s.close()
		return nil, failed(op, err)
	}
	return s, nil
}

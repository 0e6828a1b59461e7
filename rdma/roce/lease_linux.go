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

// Queue pair numbers are leased for the whole host, or network namespace: a process has a number while it holds the
// abstract unix socket with its name (unix(7)). No other process can bind that name, and it ends with the process, even
// if killed. Other processes relay datagrams for the queue pair to the same socket.

// leaseName returns the abstract socket name for a number.
func leaseName(qpn rdma.QPN) string { return fmt.Sprintf("@fanfare/roce/%06x", uint32(qpn)) }

// firstQPN is above QP0, QP1 and some more reserved numbers, as with rxe.
const firstQPN = 17

// leaseTries bounds the attempts with random numbers of 24 bits. Unless millions are in use, the first is usually free.
const leaseTries = 64

// leaseQPN leases a free number.
func leaseQPN() (rdma.QPN, *socket, error) {
	for range leaseTries {
		qpn := firstQPN + rdma.QPN(rand.Uint32N(uint32(rdma.MulticastQPN)-firstQPN))
		s, err := lease(qpn)
		if errors.Is(err, unix.EADDRINUSE) {
			continue
		}
		return qpn, s, err
	}
	return 0, nil, rdma.Errorf("create QP", syscall.ENOMEM, "found no free queue pair number on this host in %d attempts", leaseTries)
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

//go:build rdma && linux && cgo

package verbs

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/rdma"
)

// noDevice returns the error of a host without RDMA. If the kernel has no RDMA, libibverbs returns ENOSYS and librdmacm
// ENODEV.
func noDevice(op string, errno syscall.Errno) error {
	switch errno {
	case syscall.ENOSYS, syscall.ENODEV:
		return rdma.Errorf(op, errno, "this host has no RDMA device: load the driver of the adapter, or make a software device on a "+
			"network interface (modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0); ids also need rdma_ucm (modprobe rdma_ucm)")
	case syscall.EACCES, syscall.EPERM:
		return rdma.Errorf(op, errno, "no access to /dev/infiniband: it requires root or group rdma")
	}
	return rdma.Errorf(op, errno, "rdma-core failed")
}

// memlock returns the error for ENOMEM of a registration, which nearly always is caused by RLIMIT_MEMLOCK.
func memlock(op string, errno syscall.Errno, bytes int) error {
	if errno != syscall.ENOMEM {
		return rdma.Errorf(op, errno, "%d bytes", bytes)
	}
	return rdma.Errorf(op, errno, "cannot lock %d bytes of memory: the limit is %s: raise it "+
		"(ulimit -l unlimited; LimitMEMLOCK=infinity for systemd; --ulimit memlock=-1 for docker)", bytes, memlockLimit())
}

func memlockLimit() string {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r); err != nil {
		return "unknown"
	}
	if r.Cur == unix.RLIM_INFINITY {
		return "none, so the device or the host is out of memory"
	}
	return fmt.Sprintf("%d bytes per process", r.Cur)
}

// check returns the error for an errno, nil for 0.
func check(op string, errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return &rdma.Error{Op: op, Errno: errno}
}

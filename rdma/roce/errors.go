package roce

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// PortInUseError reports that another program uses UDP port 4791 of RoCEv2 exclusively. It matches EADDRINUSE.
type PortInUseError struct {
	Addr netip.AddrPort
	// Kernel: the kernel's Soft-RoCE is loaded, which uses the port for all addresses.
	Kernel bool
}

func (e *PortInUseError) Error() string {
	if e.Kernel {
		return fmt.Sprintf("roce: %v is used by the kernel's Soft-RoCE: unload it (modprobe -r rdma_rxe), or use it by rdma:// instead of roce://", e.Addr)
	}
	return fmt.Sprintf("roce: %v is used by a program that does not share it: end that program (ss -ulpn sport = :4791 shows it), or use another address", e.Addr)
}

// Unwrap returns the errno.
func (e *PortInUseError) Unwrap() error { return syscall.EADDRINUSE }

// failed returns err as an error of package rdma with its errno; a *PortInUseError stays unchanged.
func failed(op string, err error) error {
	var inUse *PortInUseError
	var done *rdma.Error
	if errors.As(err, &inUse) || errors.As(err, &done) {
		return err
	}
	errno := syscall.EIO
	errors.As(err, &errno)
	return rdma.Errorf(op, errno, "%v", err)
}

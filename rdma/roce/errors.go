package roce

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// PortInUseError reports that another program has UDP port 4791, which is RoCEv2's. It matches EADDRINUSE.
type PortInUseError struct {
	Addr netip.AddrPort
	// Kernel says that Soft-RoCE is loaded, which takes the port for all addresses.
	Kernel bool
}

func (e *PortInUseError) Error() string {
	if e.Kernel {
		return fmt.Sprintf("roce: %v is taken by the kernel's Soft-RoCE: unload it (modprobe -r rdma_rxe), or use it through rdma:// in its place", e.Addr)
	}
	return fmt.Sprintf("roce: %v is taken by a program that does not share it: end that (ss -ulpn sport = :4791 names it), or use another address", e.Addr)
}

// Unwrap returns the errno.
func (e *PortInUseError) Unwrap() error { return syscall.EADDRINUSE }

// failed makes an error of package rdma, with the errno; a *PortInUseError stays one.
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

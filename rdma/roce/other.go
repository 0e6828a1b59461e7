//go:build !linux

package roce

import (
	"runtime"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// supported returns an error on this system: sending with a known IP identification, abstract unix
// sockets and other features of the package exist only on Linux.
func supported() error {
	return rdma.Errorf("open RoCE", syscall.ENOSYS, "RoCEv2 in user space works only on Linux, and this system is %s: use udp:// instead", runtime.GOOS)
}

// device is never made on this system.
type device struct {
	link  link
	count counters
}

func canOpenRaw() (bool, error) { return false, nil }

func newDevice(*Provider, *Config, link, bool) *device { return &device{} }

func (d *device) close() {}

func (d *device) capacity(int) int { return 0 }

func (p *Provider) route() {}

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
	return rdma.Errorf("open RoCE", syscall.ENOSYS, "RoCEv2 in user space works on Linux only, and this is %s: use udp:// here", runtime.GOOS)
}

// device is never made here.
type device struct {
	link  link
	count counters
}

func lookRaw() (bool, error) { return false, nil }

func newDevice(*Provider, *Config, link, bool) *device { return &device{} }

func (d *device) close() {}

func (d *device) capacity(int) int { return 0 }

func (p *Provider) route() {}

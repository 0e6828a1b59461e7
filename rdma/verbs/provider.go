//go:build rdma && linux && cgo

package verbs

import (
	"sync"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

var (
	_ rdma.Provider     = (*provider)(nil)
	_ rdma.Device       = (*device)(nil)
	_ rdma.PD           = (*pd)(nil)
	_ rdma.MR           = (*mr)(nil)
	_ rdma.AH           = (*ah)(nil)
	_ rdma.CQ           = (*cq)(nil)
	_ rdma.Spinner      = (*cq)(nil)
	_ rdma.AHBeginner   = (*pd)(nil)
	_ rdma.PortCounting = (*device)(nil)
	_ rdma.PendingAH    = (*pendingAH)(nil)
	_ rdma.CompChannel  = (*compChannel)(nil)
	_ rdma.QP           = (*qp)(nil)
	_ rdma.EventChannel = (*eventChannel)(nil)
	_ rdma.ID           = (*id)(nil)
)

// provider is rdma-core on this host. There is one for the process, like the state of librdmacm, because all ids share
// librdmacm's contexts.
type provider struct {
	mu sync.Mutex
	cm map[cverbs.Context]*device // the connection manager's devices in use
}

var host = &provider{cm: map[cverbs.Context]*device{}}

// Open returns the provider of this host. It uses no resources and does not have to be closed. It does not check
// whether there are devices: Devices and OpenDevice do.
func Open() (rdma.Provider, error) { return host, nil }

func (p *provider) Name() string { return "verbs" }

// Devices returns the names of the devices.
func (p *provider) Devices() ([]string, error) {
	names, errno := cverbs.Devices()
	if errno != 0 {
		return nil, noDevice("list devices", errno)
	}
	return names, nil
}

// OpenDevice opens a device by name.
func (p *provider) OpenDevice(name string) (rdma.Device, error) {
	const op = "open device"
	ctx, errno := cverbs.Open(name)
	switch {
	case errno == syscall.ENODEV || errno == syscall.ENOSYS:
		names, _ := p.Devices()
		if len(names) == 0 {
			return nil, noDevice(op, errno)
		}
		return nil, rdma.Errorf(op, errno, "there is no device %q; this host has %v", name, names)
	case errno == syscall.EACCES || errno == syscall.EPERM:
		return nil, rdma.Errorf(op, errno, "%s: no access to /dev/infiniband/uverbs*: it requires root or group rdma", name)
	case errno != 0:
		return nil, rdma.Errorf(op, errno, "%s", name)
	}
	d, err := newDevice(p, ctx)
	if err != nil {
		ctx.Close()
		return nil, err
	}
	return d, nil
}

// cmDevice returns the device for a context of librdmacm, held for an id until destroyID.
func (p *provider) cmDevice(ctx cverbs.Context) (*device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.cm[ctx]; d != nil {
		d.ids++
		return d, nil
	}
	d, err := newDevice(p, ctx)
	if err != nil {
		return nil, err
	}
	d.ofCM = true
	d.ids++
	p.cm[ctx] = d
	return d, nil
}

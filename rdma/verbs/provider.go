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

// provider is rdma-core on this host. librdmacm keeps its state once for the
// process, and so does the provider: its contexts are shared by all ids.
type provider struct {
	mu sync.Mutex
	cm map[cverbs.Context]*device // the connection manager's, in use
}

var host = &provider{cm: map[cverbs.Context]*device{}}

// Open returns the provider of this host. It costs nothing and needs no closing;
// whether there are devices is seen when they are asked for.
func Open() (rdma.Provider, error) { return host, nil }

func (p *provider) Name() string { return "verbs" }

// Devices lists the names of the devices.
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
		return nil, rdma.Errorf(op, errno, "no device is called %q; there are %v", name, names)
	case errno == syscall.EACCES || errno == syscall.EPERM:
		return nil, rdma.Errorf(op, errno, "%s: no access to /dev/infiniband/uverbs*: it needs root, or group rdma", name)
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

// cmDevice returns the device of a context of librdmacm's, held for an id until destroyID.
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

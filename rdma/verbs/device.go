//go:build rdma && linux && cgo

package verbs

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// device is an opened device, struct ibv_context: the user's own, or one of
// librdmacm's, which all ids on the device share.
type device struct {
	host *provider
	ctx  cverbs.Context
	name string
	ofCM bool

	// objects counts what was made from it and not closed.
	objects atomic.Int64
	closed  atomic.Bool
	removed atomic.Bool // a fatal event came
	async   asyncQueue
	watch   *watch
	ports   []portState // by number, from 1

	// Of librdmacm's: the ids bound to it, and those of them that wait for the
	// objects to go; under provider.mu.
	ids     int
	waiting []cverbs.ID

	inlineOnce sync.Once
	inline     int // largest inline message in bytes, under inlineOnce
}

// portState is what is kept of a port, so that sending need not ask.
type portState struct {
	layer rdma.LinkLayer // never changes
	mtu   atomic.Int32   // bytes; as of the last event of the port, or query
}

func newDevice(p *provider, ctx cverbs.Context) (*device, error) {
	const op = "open device"
	d := &device{host: p, ctx: ctx, name: ctx.Name()}
	attr, errno := ctx.Attr()
	if errno != 0 {
		return nil, rdma.Errorf(op, errno, "%s: cannot query it", d.name)
	}
	d.ports = make([]portState, attr.Ports+1)
	for i := 1; i < len(d.ports); i++ {
		a, errno := ctx.Port(uint8(i))
		if errno != 0 {
			return nil, rdma.Errorf(op, errno, "%s: cannot query port %d", d.name, i)
		}
		d.ports[i].layer = rdma.LinkLayer(a.LinkLayer)
		d.ports[i].mtu.Store(int32(rdma.MTUFromCode(uint8(a.ActiveMTU))))
	}
	d.async.source = newSource()
	w, err := newWatch(op, ctx.AsyncFD(), d.drainAsync)
	if err != nil {
		return nil, err
	}
	d.watch = w
	return d, nil
}

// usable says whether anything can be made from the device.
func (d *device) usable(op string) error {
	if d.closed.Load() {
		return rdma.ClosedError(op, "device")
	}
	return nil
}

// hold counts an object more. It fails when the device is closed.
func (d *device) hold(op string) error {
	for {
		n := d.objects.Load()
		if d.closed.Load() {
			return rdma.ClosedError(op, "device")
		}
		if d.objects.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

// release counts one less.
func (d *device) release() {
	if d.objects.Add(-1) == 0 && d.ofCM {
		d.host.unused(d)
	}
}

func (d *device) Name() string { return d.name }

// Attr are the device's limits.
func (d *device) Attr() (rdma.DeviceAttr, error) {
	const op = "query device"
	if err := d.usable(op); err != nil {
		return rdma.DeviceAttr{}, err
	}
	a, errno := d.ctx.Attr()
	if errno != 0 {
		return rdma.DeviceAttr{}, rdma.Errorf(op, errno, "%s", d.name)
	}
	d.inlineOnce.Do(d.probeInline)
	return rdma.DeviceAttr{
		Name: d.name, NodeGUID: a.NodeGUID, VendorID: a.VendorID, PhysPorts: a.Ports,
		MaxQP: a.MaxQP, MaxQPWR: a.MaxQPWR, MaxSGE: a.MaxSGE, MaxCQ: a.MaxCQ, MaxCQE: a.MaxCQE, MaxMR: a.MaxMR, MaxPD: a.MaxPD, MaxAH: a.MaxAH,
		MaxMcastGrp: a.MaxMcastGrp, MaxMcastQPAttach: a.MaxMcastQPAttach, MaxTotalMcastQPAttach: a.MaxTotalMcastQPAttach,
		MaxInlineData: d.inline,
	}, nil
}

// probeInline finds out how much a queue pair can send inline, which no
// attribute of verbs tells: the largest of a few sizes that one can be made
// with. What a device refuses, it refuses without a trace.
func (d *device) probeInline() {
	p, errno := d.ctx.AllocPD()
	if errno != 0 {
		return
	}
	defer p.Dealloc()
	c, errno := d.ctx.CreateCQ(1, 0, cverbs.CompChannel{})
	if errno != 0 {
		return
	}
	defer c.Destroy()
	for size := uint32(1024); size >= 16; size /= 2 {
		q, got, errno := p.CreateQP(cverbs.QPInit{SendCQ: c, RecvCQ: c, Type: int(rdma.QPTypeUD),
			Cap: cverbs.QPCap{SendWR: 1, RecvWR: 1, SendSGE: 1, RecvSGE: 1, Inline: size}})
		if errno == 0 {
			d.inline = int(got.Inline)
			q.Destroy()
			return
		}
	}
}

// Close closes the device.
func (d *device) Close() error {
	const op = "close device"
	if d.ofCM {
		return rdma.Errorf(op, syscall.EINVAL, "device belongs to an id")
	}
	if n := d.objects.Load(); n > 0 {
		return rdma.Errorf(op, syscall.EBUSY, "%d objects are left on it", n)
	}
	if d.closed.Swap(true) {
		return rdma.ClosedError(op, "device")
	}
	d.end()
	d.ctx.Close()
	return nil
}

// stop ends what the device has in Go.
func (d *device) stop() {
	if !d.closed.Swap(true) {
		d.end()
	}
}

func (d *device) end() {
	d.watch.stop()
	close(d.async.closed)
}

// TryGetAsyncEvent returns the next event of the device.
func (d *device) TryGetAsyncEvent() (rdma.AsyncEvent, error) { return d.async.pop() }

// GetAsyncEvent waits for it.
func (d *device) GetAsyncEvent(ctx context.Context) (rdma.AsyncEvent, error) {
	return await(ctx, &d.async.source, d.async.pop)
}

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

// device is an opened device, struct ibv_context: opened by the user, or by librdmacm for all ids on the device.
type device struct {
	host *provider
	ctx  cverbs.Context
	name string
	ofCM bool

	life                // its users are the objects made from it
	removed atomic.Bool // a fatal event arrived, or no more events can arrive
	async   asyncQueue
	watch   *watch
	ports   []portState // by number, from 1

	handles workers // make address handles

	// Only if opened by librdmacm: the number of ids that hold it, and the destroyed one that still exists in C, with its
	// channel. Guarded by provider.mu. See cmdevice.go.
	ids      int
	waiting  cverbs.ID
	waitsFor *eventChannel // nil: there is none

	inlineOnce sync.Once
	inline     int // largest inline message in bytes, under inlineOnce
}

// portState is the cached state of a port, so that sending does not have to query it.
type portState struct {
	layer rdma.LinkLayer // never changes
	mtu   atomic.Int32   // bytes, from the last query or event of the port
}

func newDevice(p *provider, ctx cverbs.Context) (*device, error) {
	const op = "open device"
	d := &device{host: p, ctx: ctx, name: ctx.Name(), life: life{kind: "device"}, handles: workers{max: maxMakers}}
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
	w, err := newWatch(op, ctx.AsyncFD(), d.drainAsync, d.waitFailed)
	if err != nil {
		return nil, err
	}
	d.watch = w
	return d, nil
}

// release decrements the number of objects.
func (d *device) release() {
	if d.life.release() && d.ofCM {
		d.host.unused(d)
	}
}

// waitFailed is called when waiting for events of the device fails, as the kernel reports for a removed device
// (core/uverbs_main.c, ib_uverbs_event_poll).
func (d *device) waitFailed(err *rdma.Error) {
	d.removed.Store(true)
	d.async.fail(err)
}

func (d *device) Name() string { return d.name }

// Attr returns the device's limits.
func (d *device) Attr() (rdma.DeviceAttr, error) {
	const op = "query device"
	if err := d.enter(op); err != nil {
		return rdma.DeviceAttr{}, err
	}
	defer d.leave()
	a, errno := d.ctx.Attr()
	if errno != 0 {
		return rdma.DeviceAttr{}, rdma.Errorf(op, errno, "%s", d.name)
	}
	d.inlineOnce.Do(d.probeInline)
	return rdma.DeviceAttr{
		Name: d.name, NodeGUID: a.NodeGUID, VendorID: a.VendorID, PhysPorts: a.Ports,
		MaxQP: a.MaxQP, MaxQPWR: a.MaxQPWR, MaxSGE: a.MaxSGE, MaxCQ: a.MaxCQ,
		MaxCQE: a.MaxCQE, MaxMR: a.MaxMR, MaxPD: a.MaxPD, MaxAH: a.MaxAH,
		MaxMcastGrp: a.MaxMcastGrp, MaxMcastQPAttach: a.MaxMcastQPAttach, MaxTotalMcastQPAttach: a.MaxTotalMcastQPAttach,
		MaxInlineData: d.inline,
	}, nil
}

// probeInline determines the maximum size of inline messages, which no attribute of verbs reports: the largest of some
// sizes with which a queue pair can be created. A failed attempt has no side effects.
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
		return rdma.Errorf(op, syscall.EINVAL, "the device belongs to an id")
	}
	if err := d.end(op); err != nil {
		return err
	}
	d.stop()
	d.ctx.Close()
	return nil
}

// stop ends the Go state of the device, which is already closed.
func (d *device) stop() {
	d.watch.stop()
	close(d.async.closed)
}

// TryGetAsyncEvent returns the next event of the device.
func (d *device) TryGetAsyncEvent() (rdma.AsyncEvent, error) { return d.async.pop() }

// GetAsyncEvent waits for the next event of the device.
func (d *device) GetAsyncEvent(ctx context.Context) (rdma.AsyncEvent, error) {
	return await(ctx, &d.async.source, d.async.pop)
}

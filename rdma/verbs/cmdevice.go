//go:build rdma && linux && cgo

package verbs

import (
	"slices"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// A context of librdmacm stays open until the process ends, unless its device was removed: then librdmacm closes it
// when it lists devices and no id uses it, or otherwise with the last id after it has listed them. With a driver
// without disassociation (rxe) the removal ends only then. Objects made from the context must be destroyed before. So
// the last id, and the event channel that it needs, stay in C while there are objects.

// destroyID destroys an id for which cmDevice has held the device. The caller holds the lock of the id's channel.
func (p *provider) destroyID(o *id) syscall.Errno {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := o.dev
	if d.ids == 1 {
		if p.cm[d.ctx] == d && d.end("") != nil {
			o.quiet()
			d.waiting, d.waitsFor = o.c, o.ch
			o.ch.waiting++
			return 0
		}
		p.retire(d)
	}
	errno := o.c.Destroy()
	if errno == 0 { // otherwise it still exists, and holds the device
		d.ids--
	}
	return errno
}

// quiet ends the effects of an id that stays in C. An error means that the kernel has already ended it with its device.
// The caller holds the lock of the channel.
func (o *id) quiet() {
	o.c.ForgetQP() // otherwise leaving would detach it
	for _, m := range o.members {
		_ = o.c.Leave(cAddr(m.group))
	}
}

// retire ends the Go state of a closed device of librdmacm, before its context may be closed. If the device is used
// again, a new state is made. The caller holds mu.
func (p *provider) retire(d *device) {
	if p.cm[d.ctx] != d {
		return
	}
	delete(p.cm, d.ctx)
	d.stop()
	if d.removed.Load() || !listed(d.name) {
		cverbs.SyncDevices() // this makes librdmacm open all others
	}
}

// listed reports whether a device with the name exists. The only other sign of a removal that waits for the device to
// be closed is an event of an id, which may not be retrieved.
func listed(name string) bool {
	names, _ := cverbs.Devices()
	return slices.Contains(names, name)
}

// unused is called when a device of librdmacm has no objects: it destroys the id that waited for that.
func (p *provider) unused(d *device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ch := d.waitsFor
	if ch == nil {
		return
	}
	if d.ids == 1 {
		if d.end("") != nil {
			return // the device has objects again
		}
		p.retire(d)
	}
	// There is no caller for the error. Closing the channel makes the kernel discard the id.
	_ = d.waiting.Destroy()
	d.ids--
	d.waiting, d.waitsFor = cverbs.ID{}, nil
	if ch.waiting--; ch.waiting == 0 && ch.detached {
		ch.c.Destroy()
	}
}

// destroyChannel destroys a channel without ids as soon as none of its ids exists in C.
func (p *provider) destroyChannel(ch *eventChannel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ch.waiting > 0 {
		ch.detached = true
		return
	}
	ch.c.Destroy()
}

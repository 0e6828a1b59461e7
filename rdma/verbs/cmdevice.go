//go:build rdma && linux && cgo

package verbs

import (
	"slices"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// A context of librdmacm stays open until the process ends, unless its device was removed: then librdmacm closes it
// when it lists devices and no id uses it, or else with the last id after it has listed them. On devices with a driver
// without disassociation (rxe) the removal ends only then. The objects made from the context must be destroyed before
// that. So the last id remains in C as long as there are objects, and so does the event channel that an id needs.

// destroyID destroys an id that cmDevice held the device for. The caller holds the lock of the id's channel.
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
	if errno == 0 { // or it is there still, and holds the device
		d.ids--
	}
	return errno
}

// quiet ends an id's effects for its user, while it stays in C. It is no failure if the kernel has ended it
// with its device. The caller holds the lock of the channel.
func (o *id) quiet() {
	o.c.ForgetQP() // leaving would detach it
	for _, m := range o.members {
		_ = o.c.Leave(cAddr(m.group))
	}
}

// retire ends the Go state of a closed device of librdmacm's, before the context may close. If the
// device is used again, a new one is made. The caller holds mu.
func (p *provider) retire(d *device) {
	if p.cm[d.ctx] != d {
		return
	}
	delete(p.cm, d.ctx)
	d.stop()
	if d.removed.Load() || !listed(d.name) {
		cverbs.SyncDevices() // which makes librdmacm open all others
	}
}

// listed reports whether a device of that name exists. The only other sign of a removal that waits for
// the device to be closed is an event of an id, which may not have been retrieved.
func listed(name string) bool {
	names, _ := cverbs.Devices()
	return slices.Contains(names, name)
}

// unused is called when a device of librdmacm's has no objects: it ends the id that waited for that.
func (p *provider) unused(d *device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ch := d.waitsFor
	if ch == nil {
		return
	}
	if d.ids == 1 {
		if d.end("") != nil {
			return // there are objects again
		}
		p.retire(d)
	}
	// The error has no caller to return to. Closing the channel makes the kernel forget the id.
	_ = d.waiting.Destroy()
	d.ids--
	d.waiting, d.waitsFor = cverbs.ID{}, nil
	if ch.waiting--; ch.waiting == 0 && ch.detached {
		ch.c.Destroy()
	}
}

// destroyChannel destroys a channel without ids as soon as none waits in C.
func (p *provider) destroyChannel(ch *eventChannel) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ch.waiting > 0 {
		ch.detached = true
		return
	}
	ch.c.Destroy()
}

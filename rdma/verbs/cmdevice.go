//go:build rdma && linux && cgo

package verbs

import (
	"slices"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// A context of librdmacm's stays open until the process ends, unless its device
// was removed: then librdmacm closes it when it looks for devices and no id is on
// it, or with the last id after it has looked; and only then, on devices whose
// driver knows no disassociation (rxe), does the removal end. The objects made
// from the context must be gone before that. So the last id stays in C for as
// long as there are objects, and an id needs its event channel: that stays in C
// as well.

// destroyID destroys an id that cmDevice held the device for. The caller holds
// the lock of the id's channel.
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

// quiet ends all that an id does for its user, while it stays in C. That the
// kernel has ended it with its device is no failure. The caller holds the lock of
// the channel.
func (o *id) quiet() {
	o.c.ForgetQP() // leaving would detach it
	for _, m := range o.members {
		_ = o.c.Leave(cAddr(m.group))
	}
}

// retire ends what a closed device of librdmacm's has in Go, before the context
// may close. A device that is used again is made anew. The caller holds mu.
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

// listed says whether there is a device of the name. Of a removal that waits for
// the device to be closed nothing else tells but an event of an id, which nobody
// may have retrieved.
func listed(name string) bool {
	names, _ := cverbs.Devices()
	return slices.Contains(names, name)
}

// unused is called when a device of librdmacm's has no objects: it ends the id
// that waited for that.
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
	// If that fails nobody is left to be told. Closing the channel makes the
	// kernel forget the id.
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

//go:build rdma && linux && cgo

package verbs

import (
	"syscall"

	"github.com/fanfaremq/fanfare/rdma/verbs/internal/cverbs"
)

// A context of librdmacm's stays open until the process ends, unless its device
// was removed: then librdmacm closes it with the last id on it, and only then,
// on devices whose driver knows no disassociation (rxe), does the removal end.
// The objects made from the context must be gone before that.

// destroyID destroys an id that cmDevice held the device for. Of a device that
// was removed the id waits in C for the last object; the kernel has ended it
// already.
func (p *provider) destroyID(d *device, c cverbs.ID) syscall.Errno {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.removed.Load() && d.objects.Load() > 0 {
		d.waiting = append(d.waiting, c)
		return 0
	}
	return p.destroyLocked(d, c)
}

func (p *provider) destroyLocked(d *device, c cverbs.ID) syscall.Errno {
	last := d.ids == 1 && d.objects.Load() == 0
	if last {
		// Before the context closes, if it does. A device that is used again is
		// made anew.
		delete(p.cm, d.ctx)
		d.stop()
		if d.removed.Load() {
			cverbs.SyncDevices()
		}
	}
	errno := c.Destroy()
	if errno == 0 || last {
		d.ids--
	}
	return errno
}

// unused ends what waited for the last object of a device of librdmacm's.
func (p *provider) unused(d *device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.objects.Load() > 0 {
		return
	}
	waiting := d.waiting
	d.waiting = nil
	for _, c := range waiting {
		_ = p.destroyLocked(d, c) // nobody is left to be told
	}
	if d.ids == 0 && p.cm[d.ctx] == d {
		delete(p.cm, d.ctx)
		d.stop()
	}
}

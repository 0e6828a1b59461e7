package roce

import (
	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// NewQP implements soft.Backend: it leases a number that no other process of this host has.
func (d *device) NewQP() (rdma.QPN, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.start(); err != nil {
		return 0, err
	}
	qpn, lease, err := leaseQPN()
	if err != nil {
		return 0, err
	}
	if err := d.add(lease); err != nil {
		return 0, failed("create QP", err)
	}
	d.senders[qpn] = newSender(d, qpn, lease)
	return qpn, nil
}

// CloseQP implements soft.Backend.
func (d *device) CloseQP(qpn rdma.QPN) {
	d.mu.Lock()
	s := d.senders[qpn]
	delete(d.senders, qpn)
	if s != nil {
		d.retire(s.lease)
	}
	d.mu.Unlock()
	if s != nil {
		s.close()
	}
}

// await makes a queue pair resume when an outlet has room again. It returns false if that is not possible.
func (d *device) await(q *soft.QP, o *outlet) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	o.waiting = q
	if o.watched == nil || o.watched.fd != o.full {
		d.unwatch(o)
		d.sockets.nextID++
		o.watched = &socket{fd: o.full, id: d.sockets.nextID, kind: sendSocket, out: o}
		if d.sockets.watched.Add(o.full, o.watched.id, unix.EPOLLOUT|unix.EPOLLONESHOT) != nil {
			o.watched = nil
			return false
		}
		d.sockets.byID[o.watched.id] = o.watched
		return true
	}
	return d.sockets.watched.Rearm(o.full, o.watched.id, unix.EPOLLOUT|unix.EPOLLONESHOT) == nil
}

// unwatch stops watching an outlet's socket; the outlet closes it. The caller holds mu.
func (d *device) unwatch(o *outlet) {
	if s := o.watched; s != nil {
		delete(d.sockets.byID, s.id)
		d.sockets.watched.Remove(s.fd)
		s.retired.Store(true)
		o.watched = nil
	}
	o.waiting = nil
}

// owns reports whether a queue pair belongs to the device.
func (d *device) owns(qpn rdma.QPN) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.senders[qpn] != nil
}

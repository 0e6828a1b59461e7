package roce

import (
	"errors"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// An address has an entry in the GID table, at the index of its GID, and a socket while the interface has the address.
// A removed address keeps its entry: it usually returns, for example with a new DHCP lease, and ids bound to it can
// then continue.

// maxGIDs is the maximum length of the GID table, as with rxe (kernel drivers/infiniband/sw/rxe/rxe_param.h,
// RXE_PORT_GID_TBL_LEN). Routers can announce any number of new prefixes.
const maxGIDs = 1024

// admit makes sockets and entries for all addresses of the interface, removes the sockets of removed addresses, and
// returns the table. It removes addresses that fail from now.addrs. complete means that a retry before the next event
// would be useless. Only the keeper calls it, without a lock.
func (d *device) admit(k *keeper, now *link) (table []netip.Addr, complete bool) {
	var idle []netip.Addr
	if len(d.link.addrs) >= d.maxGIDs {
		idle = d.idle()
	}
	d.rxMu.Lock()
	defer d.rxMu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.link.addrs {
		if s := d.sockets.unicast[a]; s != nil && !slices.Contains(now.addrs, a) {
			k.poll.Remove(s.fd)
			k.sockets = slices.DeleteFunc(k.sockets, func(o *socket) bool { return o == s })
			d.retire(s)
			delete(d.sockets.unicast, a)
			d.sockets.removed = append(d.sockets.removed, a)
		}
	}
	complete = true
	var have []netip.Addr
	for _, a := range now.addrs {
		if d.sockets.unicast[a] == nil {
			index := slices.Index(d.link.addrs, a)
			switch {
			case index >= 0:
			case len(d.link.addrs) < d.maxGIDs:
				index = len(d.link.addrs)
			case len(idle) > 0:
				index = slices.Index(d.link.addrs, idle[0])
			default:
				continue // the table is full
			}
			if err := d.equip(k, a); err != nil {
				// Another program may use the address's port 4791 exclusively, or the address was removed again, which the kernel
				// reports next. Other errors mean that a resource is exhausted.
				if !errors.Is(err, unix.EADDRINUSE) && !errors.Is(err, unix.EADDRNOTAVAIL) {
					complete = false
				}
				continue
			}
			if index == len(d.link.addrs) {
				d.link.addrs = append(d.link.addrs, a)
			}
			old := d.link.addrs[index]
			d.link.addrs[index] = a
			inUse := func(b netip.Addr) bool { return b == old }
			d.sockets.removed, idle = slices.DeleteFunc(d.sockets.removed, inUse), slices.DeleteFunc(idle, inUse)
		}
		have = append(have, a)
	}
	now.addrs = have
	if d.sockets.raw != nil {
		if d.selectRaw(d.sockets.raw.fd) != nil { // the previous filter remains
			complete = false
		}
	}
	d.closeRetired()
	return slices.Clone(d.link.addrs), complete
}

// equip opens the socket for an address. The caller holds rxMu and mu.
func (d *device) equip(k *keeper, a netip.Addr) error {
	s, err := openUnicast(d, a)
	if err != nil {
		return err
	}
	if err := d.add(s); err != nil {
		return err
	}
	if err := k.poll.Add(s.fd, s.id, unix.EPOLLIN); err != nil {
		d.retire(s)
		return err
	}
	k.sockets = append(k.sockets, s)
	d.sockets.unicast[a] = s
	return nil
}

// idle returns the removed addresses to which no id is bound and from which none has sent, first those removed first.
// Only the keeper calls it, without a lock.
func (d *device) idle() []netip.Addr {
	d.mu.Lock()
	list := slices.Clone(d.sockets.removed)
	senders := make([]*sender, 0, len(d.senders))
	for _, s := range d.senders {
		senders = append(senders, s)
	}
	d.mu.Unlock()
	used := map[netip.Addr]bool{}
	for _, s := range senders {
		s.mu.Lock()
		for _, o := range s.outlets {
			used[o.path.Src.IP()] = true
		}
		s.mu.Unlock()
	}
	return slices.DeleteFunc(list, func(a netip.Addr) bool {
		return used[a] || d.soft.Bound(1, slices.Index(d.link.addrs, a))
	})
}

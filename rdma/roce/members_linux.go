package roce

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
)

// JoinIP implements soft.Backend: it sends an IGMP report. It does nothing for an address that is not a group;
// attaching to it fails later.
func (d *device) JoinIP(_ uint8, group netip.Addr) error {
	if !group.IsMulticast() {
		return nil
	}
	if d.cfg.IPv6 && group.Is4() {
		return unix.EAFNOSUPPORT
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.join(group)
}

// join is JoinIP. The caller holds mu.
func (d *device) join(group netip.Addr) error {
	if err := d.start(); err != nil {
		return err
	}
	if s := d.sockets.groups[group]; s != nil {
		s.users++
		return nil
	}
	s, err := openGroup(d, group)
	if err != nil {
		return err
	}
	if err := d.add(s); err != nil {
		return err
	}
	d.sockets.groups[group], s.users = s, 1
	if d.sockets.raw != nil && group.Is4() {
		if err := d.selectRaw(d.sockets.raw.fd); err != nil {
			d.leave(group)
			return err
		}
	}
	return nil
}

// LeaveIP implements soft.Backend: it sends an IGMP leave.
func (d *device) LeaveIP(_ uint8, group netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leave(group)
	if d.sockets.raw != nil && group.Is4() {
		_ = d.selectRaw(d.sockets.raw.fd) // if this fails, input drops the datagrams
	}
}

// leave is LeaveIP. The caller holds mu.
func (d *device) leave(group netip.Addr) {
	s := d.sockets.groups[group]
	if s == nil {
		return
	}
	if s.users--; s.users == 0 {
		delete(d.sockets.groups, group)
		sys.Leave(s.fd, group, d.link.index)
		d.retire(s)
	}
}

// Attached implements soft.Backend: the connection manager cannot join IPv6 groups on RoCEv2, except with Config.IPv6,
// so the interface joins when a queue pair is attached. A group that both have joined is left when both have left it.
func (d *device) Attached(gid rdma.GID) error {
	if gid.IsV4Mapped() {
		return nil
	}
	return d.JoinIP(1, gid.IP())
}

// Detached implements soft.Backend: it reverses Attached.
func (d *device) Detached(gid rdma.GID) {
	if !gid.IsV4Mapped() {
		d.LeaveIP(1, gid.IP())
	}
}

// isOwn reports whether a unicast address belongs to the device.
func (d *device) isOwn(gid rdma.GID) bool {
	for _, a := range d.link.addrs {
		if rdma.GIDFromIP(a) == gid {
			return true
		}
	}
	return false
}

// isMember reports whether the device is a member of a group.
func (d *device) isMember(gid rdma.GID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sockets.groups[gid.IP()] != nil
}

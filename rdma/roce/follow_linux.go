package roce

import (
	"net"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// The keeper follows the interface. What RDMA devices tell of theirs is told here
// too: AsyncGIDChange when addresses come and go, AsyncPortErr and AsyncPortActive
// when it goes down and up, and the device's removal with the interface's.

// openNews makes a socket at which the kernel tells of every change of an
// interface or its addresses (rtnetlink(7)).
func openNews() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return -1, os.NewSyscallError("netlink socket", err)
	}
	const groups = 1<<(unix.RTNLGRP_LINK-1) | 1<<(unix.RTNLGRP_IPV4_IFADDR-1) | 1<<(unix.RTNLGRP_IPV6_IFADDR-1)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("bind netlink socket", err)
	}
	return fd, nil
}

// anyNews reads the news away and reports whether there was something. It does
// not matter what: the interface is looked at anew.
func (k *keeper) anyNews() (any bool) {
	for k.hears {
		n, err := unix.Read(k.news, k.page[:])
		switch {
		case err == unix.EINTR:
		case err == unix.ENOBUFS || err == nil && n > 0: // lost some, which is news
			any = true
		default:
			return any
		}
	}
	return false
}

// lookAt is what an interface is now.
func lookAt(index int, cfg *Config) (link, error) {
	ifc, err := net.InterfaceByIndex(index)
	if err != nil {
		return link{}, err
	}
	return linkOf(ifc, cfg)
}

// isRemoved reports whether there certainly is no interface of an index
// (netdevice(7), SIOCGIFNAME). That a look at it failed can have other reasons,
// as that the process has no descriptor left; fd is a socket, open already.
func isRemoved(fd, index int) bool {
	r, err := unix.NewIfreq("")
	if err != nil {
		return false
	}
	r.SetUint32(uint32(index))
	err = unix.IoctlIfreq(fd, unix.SIOCGIFNAME, r)
	return err == unix.ENODEV || err == unix.ENXIO
}

// follow takes in what the interface has become, and reports whether it could:
// else it shall be called again soon, without news. Only the keeper calls it, with
// no lock held.
func (d *device) follow(k *keeper) (whole bool) {
	if k.removed {
		return true
	}
	now, err := d.look(d.link.index, d.cfg)
	if err != nil {
		if !isRemoved(k.news, d.link.index) {
			return false
		}
		k.removed = true
		d.soft.Remove()
		d.wake()
		return true
	}
	if d.cfg.Addrs != nil {
		now.addrs = now.those(d.cfg.Addrs)
	}
	table, whole := d.admit(k, &now)

	var changed []rdma.AsyncEventType
	d.soft.UpdatePort(1, func(s *soft.PortState) {
		next := now.state()
		next.GIDs = next.GIDs[:0]
		for i, a := range table {
			if slices.Contains(now.addrs, a) {
				next.GIDs = append(next.GIDs, now.gid(i, a))
			}
		}
		if next.State != s.State {
			typ := rdma.AsyncPortActive
			if next.State != rdma.PortActive {
				typ = rdma.AsyncPortErr
			}
			changed = append(changed, typ)
		}
		if !slices.Equal(next.GIDs, s.GIDs) {
			changed = append(changed, rdma.AsyncGIDChange)
		}
		s.State, s.MTU, s.NetDevMTU, s.RateGbps = next.State, next.MTU, next.NetDevMTU, next.RateGbps
		s.GIDs, s.Addrs = next.GIDs, next.Addrs
	})
	for _, typ := range changed {
		d.soft.PortEvent(typ, 1)
	}
	if len(changed) > 0 {
		d.wake()
	}
	return whole
}

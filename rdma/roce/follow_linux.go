package roce

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// The keeper follows the interface and reports what RDMA devices report of theirs: AsyncGIDChange when
// addresses appear or disappear, AsyncPortErr and AsyncPortActive when it goes down and up, and the
// device's removal when the interface is removed.

// currentLink returns the current state of an interface.
func currentLink(index int, cfg *Config) (link, error) {
	ifc, err := sys.InterfaceByIndex(index)
	if err != nil {
		return link{}, err
	}
	return linkOf(ifc, cfg)
}

// follow applies the current state of the interface, and reports whether it could: if not, it is to be
// called again soon, even without an event. Only the keeper calls it, with no lock held.
func (d *device) follow(k *keeper) (whole bool) {
	if k.removed {
		return true
	}
	now, err := d.findLink(d.link.index, d.cfg)
	if err != nil {
		if !k.news.IsGone(d.link.index) {
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

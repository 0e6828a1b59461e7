package roce

import (
	"slices"

	"github.com/fanfaremq/fanfare/internal/sys"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// The keeper observes the interface and reports the events of RDMA devices: AsyncGIDChange when addresses appear or
// disappear, AsyncPortErr and AsyncPortActive when it goes down and up, and the removal of the device when the
// interface is removed.

// currentLink returns the current state of an interface.
func currentLink(index int, cfg *Config) (link, error) {
	ifc, err := sys.InterfaceByIndex(index)
	if err != nil {
		return link{}, err
	}
	return linkOf(ifc, cfg)
}

// follow applies the current state of the interface. If it returns false, some of it could not be applied, and follow
// must be called again soon, even without an event. Only the keeper calls it, without a lock.
func (d *device) follow(k *keeper) (complete bool) {
	if k.removed {
		return true
	}
	now, err := d.findLink(d.link.index, d.cfg)
	if err != nil {
		if !k.linkWatch.IsGone(d.link.index) {
			return false
		}
		k.removed = true
		d.soft.Remove()
		d.wake()
		return true
	}
	if d.cfg.Addrs != nil {
		now.addrs = now.present(d.cfg.Addrs)
	}
	table, complete := d.admit(k, &now)

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
	return complete
}

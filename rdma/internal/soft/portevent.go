package soft

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/fanfaremq/fanfare/rdma"
)

// PortEvent reports a change of a port, after UpdatePort: to the handles of the device, and on InfiniBand to the
// members of groups, since some events end memberships (kernel core/multicast.c, mcast_event_handler).
func (d *Device) PortEvent(typ rdma.AsyncEventType, num uint8) {
	d.Async(rdma.AsyncEvent{Type: typ, Port: num})
	d.host.cm.Lock()
	defer d.host.cm.Unlock()
	p := d.ports[num-1]
	switch typ {
	case rdma.AsyncPortErr, rdma.AsyncLIDChange, rdma.AsyncClientReregist:
		p.loseGroups(func(*ibGroup) bool { return true })
	case rdma.AsyncPKeyChange:
		// Only groups of partitions that have another index now (process_group_error).
		s := p.state.Load()
		p.loseGroups(func(g *ibGroup) bool { return s.pkeyIndexOf(g.rec.PKey) != g.pkeyIndex })
	}
}

// loseGroups loses the groups for which which returns true, in the order of their MGIDs, so that runs can be repeated.
// The caller holds cm.
func (p *port) loseGroups(which func(*ibGroup) bool) {
	groups := make([]*ibGroup, 0, len(p.groups))
	for _, g := range p.groups {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b *ibGroup) int { return bytes.Compare(a.rec.MGID[:], b.rec.MGID[:]) })
	for _, g := range groups {
		if g.joined != 0 && which(g) {
			g.lose()
			g.soon()
		}
	}
}

// Remove removes the device: its ids get an event and are no longer bound, and its queue pairs go into state ERR
// (kernel core/cma.c, cma_remove_one).
func (d *Device) Remove() {
	d.host.cm.Lock()
	if d.removed.Swap(true) {
		d.host.cm.Unlock()
		return
	}
	d.host.devices = slices.DeleteFunc(d.host.devices, func(o *Device) bool { return o == d })
	for _, id := range d.host.ids {
		if id.port == nil || id.port.dev != d {
			continue
		}
		id.state, id.port = cmDeviceRemoval, nil
		for _, m := range id.members {
			m.share = nil // the groups are removed with the port
		}
		if id.destroying == nil {
			id.ch.box.push(&cmEvent{id: id, typ: rdma.EventDeviceRemoval})
		}
	}
	d.host.cm.Unlock()

	d.Async(rdma.AsyncEvent{Type: rdma.AsyncDeviceFatal})
	for _, q := range d.qpsBy(func(*QP) bool { return true }) {
		q.fail()
	}
}

// qpsBy returns the queue pairs for which is returns true, in the order of their numbers, so that runs can be repeated.
func (d *Device) qpsBy(is func(*QP) bool) (qps []*QP) {
	d.unicast.Range(func(_, v any) bool {
		if q := v.(*QP); is(q) {
			qps = append(qps, q)
		}
		return true
	})
	slices.SortFunc(qps, func(a, b *QP) int { return cmp.Compare(a.qpn, b.qpn) })
	return qps
}

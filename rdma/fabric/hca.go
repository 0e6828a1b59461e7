package fabric

import (
	"net/netip"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// hca is the fabric's part of a device: the backend of package soft.
type hca struct {
	soft.Passive
	f     *Fabric
	host  *Host
	dev   *soft.Device
	ports []*Port
}

var _ soft.Backend = (*hca)(nil)

// After calls fn after d.
func (c *hca) After(d time.Duration, fn func()) (cancel func()) { return c.f.after(d, fn) }

// SA sends a request to the subnet administrator, and calls done with the answer.
func (c *hca) SA(num uint8, req soft.SARequest, done func(soft.SAReply)) {
	f, p := c.f, c.ports[num-1]
	f.mu.Lock()
	delay := f.sm.ResponseDelay
	f.mu.Unlock()
	f.after(delay, func() {
		f.mu.Lock()
		if f.sm.Silent || !p.up {
			f.mu.Unlock()
			return
		}
		reply := f.sa.handle(p, &req)
		f.mu.Unlock()
		done(reply)
	})
}

// JoinIP sends an IGMP report, and opens the interface's filter.
func (c *hca) JoinIP(num uint8, group netip.Addr) error {
	f, p := c.f, c.ports[num-1]
	f.mu.Lock()
	defer f.mu.Unlock()
	gid := rdma.GIDFromIP(group)
	p.igmp[gid] = struct{}{}
	if p.up {
		f.report(p, gid)
	}
	return nil
}

// LeaveIP sends an IGMP leave.
func (c *hca) LeaveIP(num uint8, group netip.Addr) {
	f, p := c.f, c.ports[num-1]
	f.mu.Lock()
	defer f.mu.Unlock()
	gid := rdma.GIDFromIP(group)
	delete(p.igmp, gid)
	if p.up {
		f.record(p, Record{Kind: IGMPLeave, MGID: gid})
		f.snoop(p, gid, -1)
	}
}

// NewQP returns the next queue pair number.
func (c *hca) NewQP() (rdma.QPN, error) { return c.dev.NextQPN(), nil }

// Transmit sends datagrams, immediately or after the send delay.
func (c *hca) Transmit(q *soft.QP, batch []soft.Datagram) int {
	f := c.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cfg.SendDelay > 0 && !f.closed {
		p := c.ports[batch[0].Port-1]
		if !p.reading {
			p.startReading(q)
			return 0
		}
		if p.turn != q {
			p.await(q)
			return 0
		}
	}
	for i := range batch {
		f.send(c.ports[batch[i].Port-1], &batch[i])
	}
	return len(batch)
}

// send puts a datagram on the port's link. The caller holds mu.
func (f *Fabric) send(from *Port, d *soft.Datagram) {
	f.stats.Sent++
	if !from.up || f.closed {
		f.stats.PortDown++
		return
	}
	if d.DestQPN != rdma.MulticastQPN {
		to := f.byLID[d.DLID]
		if f.cfg.Flavor == RoCE {
			to = f.byGID[d.Net.Dst]
		}
		switch {
		case to == nil:
			f.stats.NoPath++
		case to == from:
			f.schedule(0, action{pkt: f.newPacket(d), port: to})
		default:
			f.toPort(f.newPacket(d), to)
		}
		return
	}
	p := f.newPacket(d)
	if _, member := from.igmp[d.Net.Dst]; member || f.cfg.Flavor == InfiniBand {
		p.refs++
		f.schedule(0, action{pkt: p, port: from})
	}
	from.sw.forwardFrom(p, from)
}

// forwardFrom sends a packet from a port to the switch. It releases one reference.
func (s *Switch) forwardFrom(p *packet, from *Port) {
	if s.f.cfg.Latency == 0 {
		s.forward(p, link{port: from})
		s.f.release(p)
		return
	}
	s.f.schedule(s.f.cfg.Latency, action{pkt: p, sw: s, from: link{port: from}})
}

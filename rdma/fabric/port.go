package fabric

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// Port is a port of a host's device. Fabric.mu guards its changing fields.
type Port struct {
	f      *Fabric
	hca    *hca
	num    uint8
	serial int // number in the fabric, from 1
	sw     *Switch

	up    bool
	ipoib bool
	lid   rdma.LID
	igmp  map[rdma.GID]struct{} // groups of which the interface is a member

	lastArrival time.Duration
	touched     atomic.Bool // a method has changed the port

	// With a send delay messages of one queue pair at a time are read. At the end of the delay the next one is turn.
	reading bool
	turn    *soft.QP
	waiting []*soft.QP
}

// subnetPrefix is the default subnet prefix (IBTA 4.1.1).
const subnetPrefix = 0xfe80_0000_0000_0000

// guid returns the port's GUID, with an OUI for local use.
func (p *Port) guid() uint64 { return 0x0200_5300_0000_0000 | uint64(p.serial) }

// ip returns the address of the port's interface: 10.77.x.y.
func (p *Port) ip() netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 10<<24|77<<16|uint32(p.serial))
	return netip.AddrFrom4(b)
}

// Addr returns the port's address, for rdma.ID.Bind.
func (p *Port) Addr() rdma.Addr { return rdma.IPAddr(p.ip()) }

// plug connects a new port and returns its state for the host. The caller holds mu.
func (p *Port) plug() soft.PortState {
	f := p.f
	local := rdma.GIDFromParts(subnetPrefix, p.guid())
	s := soft.PortState{State: rdma.PortActive, Addrs: []netip.Addr{p.ip()}, RateGbps: p.hca.host.cfg.RateGbps}
	if f.cfg.Flavor == RoCE {
		s.LinkLayer, s.DefaultType = rdma.LinkLayerEthernet, rdma.GIDTypeRoCEv2
		s.NetDev, s.NetDevMTU = fmt.Sprintf("eth%d", p.num-1), f.cfg.NetDevMTU
		// The MTU of rxe; the connection manager subtracts more for headers.
		s.MTU = max(rdma.MTUFor(f.cfg.NetDevMTU-80), 256)
		s.PKeys = []rdma.PKey{rdma.DefaultPKey}
		s.GIDs = []rdma.GIDEntry{
			{GID: local, Index: 0, Port: p.num, Type: rdma.GIDTypeRoCEv2, NetDev: s.NetDev},
			{GID: rdma.GIDFromIP(p.ip()), Index: 1, Port: p.num, Type: rdma.GIDTypeRoCEv2, NetDev: s.NetDev},
		}
		f.byGID[s.GIDs[0].GID], f.byGID[s.GIDs[1].GID] = p, p
		return s
	}
	s.LinkLayer, s.MTU, s.NetDev = rdma.LinkLayerInfiniBand, f.cfg.MTU, fmt.Sprintf("ib%d", p.num-1)
	s.GIDs = []rdma.GIDEntry{{GID: local, Port: p.num, Type: rdma.GIDTypeIB}}
	s.PKeys = []rdma.PKey{rdma.DefaultPKey}
	if f.cfg.PKey != rdma.DefaultPKey {
		s.PKeys = append(s.PKeys, f.cfg.PKey)
	}
	f.byGID[local] = p
	p.lid = f.newLID(p)
	s.LID, s.SMLID = p.lid, 1
	s.IPoIB = soft.IPoIB{Up: true, Broadcast: f.sa.broadcastOf(p), PKey: f.cfg.PKey, Scope: f.cfg.Scope}
	return s
}

// newLID assigns the next LID to a port. The caller holds mu.
func (f *Fabric) newLID(p *Port) rdma.LID {
	delete(f.byLID, p.lid)
	lid := f.nextLID
	f.nextLID++
	f.byLID[lid] = p
	return lid
}

// unplug removes a port from the fabric permanently.
func (p *Port) unplug() {
	p.touched.Store(true)
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	if p.up {
		p.up = false
		p.forgetMemberships()
	}
}

// forgetMemberships does what subnet manager and snooping switches do when the link of a port goes
// down. The caller holds mu.
func (p *Port) forgetMemberships() {
	if p.f.cfg.Flavor == InfiniBand {
		p.f.sa.forget(p)
		return
	}
	for _, g := range p.igmpGroups() {
		p.f.snoop(p, g, -1)
	}
}

// igmpGroups returns the groups of the interface in a fixed order, so that runs can be repeated.
func (p *Port) igmpGroups() []rdma.GID {
	return slices.SortedFunc(maps.Keys(p.igmp), func(a, b rdma.GID) int { return bytes.Compare(a[:], b[:]) })
}

// AsNew reports whether the port was never changed by the methods below or Host.RemoveDevice.
func (p *Port) AsNew() bool { return !p.touched.Load() }

// SetUp takes the port down or brings it up again.
func (p *Port) SetUp(up bool) {
	p.touched.Store(true)
	f := p.f
	f.mu.Lock()
	if p.up == up {
		f.mu.Unlock()
		return
	}
	p.up = up
	if !up {
		p.forgetMemberships()
	} else {
		p.rejoin()
	}
	f.mu.Unlock()
	p.hca.dev.UpdatePort(p.num, func(s *soft.PortState) {
		s.State = rdma.PortDown
		if up {
			s.State = rdma.PortActive
		}
	})
	if up {
		p.hca.dev.PortEvent(rdma.AsyncPortActive, p.num)
	} else {
		p.hca.dev.PortEvent(rdma.AsyncPortErr, p.num)
	}
}

// rejoin does what the IP stack does when its link comes up. The caller holds mu.
func (p *Port) rejoin() {
	if p.f.cfg.Flavor == InfiniBand {
		if p.ipoib {
			p.f.sa.broadcastOf(p)
		}
		return
	}
	for _, g := range p.igmpGroups() {
		p.f.report(p, g)
	}
}

// ChangeLID gives the port another LID, as a subnet manager may. InfiniBand only.
func (p *Port) ChangeLID() {
	p.touched.Store(true)
	p.f.mu.Lock()
	p.lid = p.f.newLID(p)
	lid := p.lid
	p.f.mu.Unlock()
	p.hca.dev.UpdatePort(p.num, func(s *soft.PortState) { s.LID = lid })
	p.hca.dev.PortEvent(rdma.AsyncLIDChange, p.num)
}

// SetPKeys replaces the port's P_Key table.
func (p *Port) SetPKeys(keys ...rdma.PKey) {
	p.touched.Store(true)
	p.hca.dev.UpdatePort(p.num, func(s *soft.PortState) { s.PKeys = keys })
	p.hca.dev.PortEvent(rdma.AsyncPKeyChange, p.num)
}

// SetIPoIB takes the port's IPoIB interface down or up. Without it no group can be joined.
func (p *Port) SetIPoIB(up bool) {
	p.touched.Store(true)
	p.f.mu.Lock()
	p.ipoib = up
	p.f.mu.Unlock()
	p.hca.dev.UpdatePort(p.num, func(s *soft.PortState) { s.IPoIB.Up = up })
}

// RemoveGIDs empties the port's GID table, as taking the address away does.
func (p *Port) RemoveGIDs() {
	p.touched.Store(true)
	p.hca.dev.UpdatePort(p.num, func(s *soft.PortState) { s.GIDs = nil })
	p.hca.dev.PortEvent(rdma.AsyncGIDChange, p.num)
}

// SetNetDevMTU sets the interface's MTU in bytes that joins use.
func (p *Port) SetNetDevMTU(mtu int) {
	p.touched.Store(true)
	p.hca.dev.UpdatePort(p.num, func(s *soft.PortState) { s.NetDevMTU = mtu })
}

// startReading starts a send delay for q. The caller holds mu.
func (p *Port) startReading(q *soft.QP) {
	p.reading, p.turn = true, nil
	p.f.schedule(p.f.cfg.SendDelay, action{timer: &timer{func() {
		p.f.mu.Lock()
		p.turn = q
		p.f.mu.Unlock()
		q.Resume()
		p.f.mu.Lock()
		p.reading, p.turn = false, nil
		if len(p.waiting) > 0 {
			next := p.waiting[0]
			p.waiting = p.waiting[1:]
			p.startReading(next)
		}
		p.f.mu.Unlock()
	}}})
}

// await queues q, a queue pair with unread messages.
func (p *Port) await(q *soft.QP) {
	for _, o := range p.waiting {
		if o == q {
			return
		}
	}
	p.waiting = append(p.waiting, q)
}

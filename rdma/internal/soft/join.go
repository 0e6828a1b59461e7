package soft

import (
	"errors"
	"syscall"

	"github.com/fanfaremq/fanfare/rdma"
)

// membership is an id's membership in a group, from the join to the leave. Host.cm guards it.
type membership struct {
	id      *ID
	addr    rdma.Addr // rdma.Addr.Group of the join's address
	flags   rdma.JoinFlags
	context any
	share   share // part of the port's membership; nil if there is none

	// mgid and mlid are set when the JOIN event is retrieved.
	mgid rdma.GID
	mlid rdma.LID

	reported, acked int      // numbers of events
	leaving         *pending // not nil: left
}

// share is a membership's part of its port's membership in a group, which all ids of the host share.
type share interface {
	// release ends the share. With the last one the port leaves the group.
	release()
}

// JoinMulticast joins as full member.
func (id *ID) JoinMulticast(group rdma.Addr, context any) error {
	return id.JoinMulticastEx(rdma.JoinAttr{
		CompMask: rdma.JoinMaskAddress | rdma.JoinMaskFlags, Flags: rdma.JoinFullMember, Addr: group,
	}, context)
}

// JoinMulticastEx begins to join a group. The checks are in the order of librdmacm's cma.c, rdma_join_multicast_ex, and
// then of the kernel's ucma.c, ucma_process_join, and cma.c, rdma_join_multicast.
func (id *ID) JoinMulticastEx(attr rdma.JoinAttr, context any) error {
	const op = "join multicast group"
	switch {
	case attr.CompMask >= rdma.JoinMaskReserved:
		return rdma.Errorf(op, syscall.ENOTSUP, "unknown bits in mask %#x", uint32(attr.CompMask))
	case attr.CompMask&rdma.JoinMaskAddress == 0:
		return rdma.Errorf(op, syscall.EINVAL, "mask %#x has no address", uint32(attr.CompMask))
	case attr.CompMask&rdma.JoinMaskFlags == 0 || attr.Flags >= rdma.JoinFlagsReserved:
		return rdma.Errorf(op, syscall.EINVAL, "missing or unknown flags: %#x", uint32(attr.Flags))
	case attr.Addr.Size() == 0:
		return rdma.Errorf(op, syscall.EINVAL, "invalid address %v", attr.Addr)
	}
	err := id.bound(op)
	defer id.host.cm.Unlock()
	switch {
	case err != nil:
		return err
	case id.state != cmAddrBound && id.state != cmAddrResolved:
		return rdma.Errorf(op, syscall.EINVAL, "id is %v", id.state)
	case !id.ps.IsUD():
		return rdma.Errorf(op, syscall.EINVAL, "port space %v is not UD", id.ps)
	}
	m := &membership{id: id, addr: attr.Addr.Group(), flags: attr.Flags, context: context}
	switch id.port.state.Load().LinkLayer {
	case rdma.LinkLayerInfiniBand:
		err = m.joinIB(op)
	case rdma.LinkLayerEthernet:
		err = m.joinRoCE(op)
	default:
		err = rdma.Errorf(op, syscall.ENOSYS, "port %d does not support multicast", id.port.num)
	}
	if err != nil {
		return err
	}
	id.members = append([]*membership{m}, id.members...)
	return nil
}

// joinIB joins the port's group. The request is the broadcast group's record with the MGID and other fields of the
// group (kernel core/cma.c, cma_join_ib_multicast). The caller holds cm.
func (m *membership) joinIB(op string) error {
	id := m.id
	s := id.port.state.Load()
	if !s.IPoIB.Up {
		return rdma.Errorf(op, syscall.EADDRNOTAVAIL, "IPoIB is not up on port %d: its broadcast group is not joined", id.port.num)
	}
	qkey, err := id.qkey(op)
	if err != nil {
		return err
	}
	rec := s.IPoIB.Broadcast
	rec.MGID = rdma.MGIDForIB(m.addr, id.ps, s.IPoIB.Scope, s.IPoIB.PKey)
	rec.QKey, rec.PKey, rec.JoinState = qkey, s.IPoIB.PKey, m.flags.State()
	rec.MLID = 0
	if e, ok := s.gid(id.sgidIndex); ok {
		rec.PortGID = e.GID
	}
	mask := MCMGID | MCPortGID | MCQKey | MCTClass | MCPKey | MCSL | MCFlow | MCJoinState
	if id.ps == rdma.PortSpaceIPoIB {
		mask |= MCMTUSelector | MCMTU | MCRateSelector | MCRate | MCHopLimit
		rec.MTUSelector, rec.RateSelector = 2, 2
	}
	m.share = id.port.joinGroup(SARequest{Mask: mask, Rec: rec}, m.answered)
	return nil
}

// answered queues the event for the answer of the subnet administrator. The caller holds cm.
func (m *membership) answered(errno syscall.Errno, rec MCMember) {
	ev := &cmEvent{id: m.id, typ: rdma.EventMulticastError, m: m, status: -int(errno)}
	if errno == 0 && m.id.port != nil {
		s := m.id.port.state.Load()
		qkey, _ := m.id.qkey("")
		index := s.gidIndexOf(rec.PortGID, rdma.GIDTypeIB)
		if index >= 0 && qkey == rec.QKey {
			ev.typ = rdma.EventMulticastJoin
			ev.ud = rdma.UDParam{QPN: rdma.MulticastQPN, QKey: qkey, AHAttr: rdma.AHAttr{
				GRH: rdma.GRH{DGID: rec.MGID, FlowLabel: rec.Flow, SGIDIndex: index, HopLimit: rec.HopLimit,
					TrafficClass: rec.TClass},
				DLID: rec.MLID, SL: rec.SL, StaticRate: rec.Rate, IsGlobal: true, Port: m.id.port.num,
			}}
		} else if qkey != rec.QKey {
			ev.status = -int(syscall.EINVAL) // as kernel 6.1.20; later ones report no event
		}
		// Otherwise the bound GID was removed: an error with status 0, as in the kernel (core/cma.c, cma_make_mc_event).
	}
	m.deliver(ev)
}

// deliver queues an event, unless the group was left. The caller holds cm.
func (m *membership) deliver(ev *cmEvent) {
	if m.leaving == nil && m.id.destroying == nil {
		m.id.ch.box.push(ev)
	}
}

// iboeOverhead is the number of bytes for headers that the kernel subtracts from the MTU of an Ethernet interface
// (include/rdma/ib_addr.h, iboe_get_mtu).
const iboeOverhead = 96

// roceHopLimit is the hop limit of IPv4 groups (IPV6_DEFAULT_HOPLIMIT).
const roceHopLimit = 64

// joinRoCE joins the IP group for a full member and queues the event (kernel
// core/cma.c, cma_iboe_join_multicast). The caller holds cm.
func (m *membership) joinRoCE(op string) error {
	id, p := m.id, m.id.port
	s := p.state.Load()
	v2 := s.DefaultType == rdma.GIDTypeRoCEv2
	switch {
	case m.addr.IsZeroNet():
		return rdma.Errorf(op, syscall.EINVAL, "address %v", m.addr)
	case m.addr.IsUnicast(): // the kernel joins, and reports the failed attachment by an event
		return rdma.Errorf(op, syscall.EINVAL, "%v is a unicast address, not a group", m.addr)
	case s.NetDev == "":
		return rdma.Errorf(op, syscall.ENODEV, "port %d has no network interface", p.num)
	case v2 && m.addr.Family != rdma.FamilyIPv4 && !(id.host.cfg.JoinIPv6 && m.addr.Family == rdma.FamilyIPv6):
		return rdma.Errorf(op, rdma.ENOTSUPP, "on RoCEv2 only IPv4 groups can be joined, not %v", m.addr)
	case rdma.MTUFor(s.NetDevMTU-iboeOverhead) == 0:
		return rdma.Errorf(op, syscall.EINVAL, "interface %s has an MTU of %d", s.NetDev, s.NetDevMTU)
	}
	if v2 && m.flags == rdma.JoinFullMember {
		ip := m.addr.IP
		if p.ipGroups[ip] == 0 {
			if err := p.dev.backend.JoinIP(p.num, ip); err != nil {
				errno := syscall.EIO
				errors.As(err, &errno)
				return rdma.Errorf(op, errno, "%v", err)
			}
		}
		p.ipGroups[ip]++
		m.share = &ipShare{p, ip}
	}
	attr := rdma.AHAttr{
		GRH:      rdma.GRH{DGID: rdma.MGIDForRoCE(m.addr, s.DefaultType), SGIDIndex: id.sgidIndex, HopLimit: 1},
		IsGlobal: true, Port: p.num,
	}
	if v2 {
		attr.GRH.HopLimit = roceHopLimit
	}
	id.later(func() {
		m.deliver(&cmEvent{id: id, typ: rdma.EventMulticastJoin, m: m,
			ud: rdma.UDParam{AHAttr: attr, QPN: rdma.MulticastQPN, QKey: rdma.UDPQKey}})
	})
	return nil
}

package fabric

import (
	"encoding/binary"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// subnetAdmin is the subnet administrator, with the groups of an InfiniBand subnet. It follows OpenSM's
// osm_sa_mcmember_record.c. Fabric.mu guards it.
type subnetAdmin struct {
	f         *Fabric
	groups    map[rdma.GID]*saGroup
	broadcast *saGroup
	mlids     map[rdma.LID]bool // in use
	made      uint32            // number of MGIDs that it has chosen
}

type saGroup struct {
	rec     soft.MCMember // without PortGID and JoinState
	members []saMember    // in the order of their joins
}

type saMember struct {
	port  *Port
	state rdma.JoinState
}

// broadcastQKey is the Q_Key of IPoIB's groups: OpenSM's default.
const broadcastQKey rdma.QKey = 0x0b1b

// init makes the broadcast group of IPoIB, of which every interface is a member and which lasts as long as the subnet
// (RFC 4391 section 4).
func (sa *subnetAdmin) init(f *Fabric) {
	sa.f = f
	sa.groups = map[rdma.GID]*saGroup{}
	sa.mlids = map[rdma.LID]bool{}
	pkey := f.cfg.PKey
	mgid := rdma.GID{0: 0xff, 1: 0x10 | f.cfg.Scope&0x0f, 2: 0x40, 3: 0x1b, 4: byte(pkey >> 8),
		5: byte(pkey), 12: 0xff, 13: 0xff, 14: 0xff, 15: 0xff}
	mlid, _ := sa.allocMLID()
	sa.broadcast = &saGroup{rec: soft.MCMember{
		MGID: mgid, QKey: broadcastQKey, MLID: mlid, PKey: pkey, Scope: f.cfg.Scope,
		MTU: f.cfg.MTU.Code(), MTUSelector: 2, Rate: broadcastRate, RateSelector: 2,
	}}
	sa.groups[mgid] = sa.broadcast
}

// broadcastOf makes the interface of a port a member of the broadcast group and returns its record.
func (sa *subnetAdmin) broadcastOf(p *Port) soft.MCMember {
	sa.broadcast.add(p, rdma.StateFullMember)
	sa.program(sa.broadcast)
	rec := sa.broadcast.rec
	rec.PortGID, rec.JoinState = p.portGID(), rdma.StateFullMember
	return rec
}

func (p *Port) portGID() rdma.GID { return rdma.GIDFromParts(subnetPrefix, p.guid()) }

// handle answers a request of a port. The caller holds mu.
func (sa *subnetAdmin) handle(p *Port, req *soft.SARequest) soft.SAReply {
	var r soft.SAReply
	if req.Delete {
		r = sa.remove(p, req)
	} else {
		r = sa.join(p, req)
	}
	kind := SASet
	if req.Delete {
		kind = SADelete
	}
	mgid := req.Rec.MGID
	if r.Status == soft.SAOk {
		mgid = r.Rec.MGID
	}
	sa.f.record(p, Record{Kind: kind, MGID: mgid, State: req.Rec.JoinState, Refused: r.Status != soft.SAOk})
	return r
}

// join adds a member, and makes the group if it does not exist.
func (sa *subnetAdmin) join(p *Port, req *soft.SARequest) soft.SAReply {
	refuse := func(s soft.SAStatus) soft.SAReply { return soft.SAReply{Status: s} }
	rec := &req.Rec
	const needed = soft.MCMGID | soft.MCPortGID | soft.MCJoinState
	switch {
	case req.Mask&needed != needed:
		return refuse(soft.SAInsufficientComps)
	case rec.PortGID != p.portGID() || rec.JoinState == 0 || rec.JoinState > 0xf:
		return refuse(soft.SAReqInvalid)
	case rec.JoinState&rdma.StateSendOnlyFullMember != 0 && sa.f.sm.NoSendOnly:
		return refuse(soft.SAReqInvalid)
	case !p.inPartition(rec.PKey):
		return refuse(soft.SAReqInvalid)
	}
	g := sa.groups[rec.MGID]
	if g == nil || rec.MGID.IsZero() {
		made, status := sa.create(p, req)
		if status != soft.SAOk {
			return refuse(status)
		}
		g = made
	} else if !g.accepts(p, req) {
		return refuse(soft.SAReqInvalid)
	}
	state := g.add(p, rec.JoinState)
	sa.program(g)
	reply := g.rec
	reply.PortGID, reply.JoinState = rec.PortGID, state
	return soft.SAReply{Rec: reply}
}

// create makes a group for a join (osm_mcmr_rcv_create_new_mgrp).
func (sa *subnetAdmin) create(p *Port, req *soft.SARequest) (*saGroup, soft.SAStatus) {
	rec := req.Rec
	const needed = soft.MCQKey | soft.MCTClass | soft.MCPKey | soft.MCFlow | soft.MCSL
	switch {
	case rec.JoinState&(rdma.StateFullMember|rdma.StateSendOnlyFullMember) == 0:
		return nil, soft.SAReqInvalid
	case req.Mask&needed != needed:
		return nil, soft.SAInsufficientComps
	case rec.MGID.IsZero():
		rec.MGID = sa.makeMGID(req)
	case !creatable(rec.MGID):
		return nil, soft.SAReqInvalid
	}
	port := p.hca.dev.PortState(p.num)
	// A value without its selector, or a selector without its value, has no effect.
	selMTU, selRate := uint8(soft.SelectLargest), uint8(soft.SelectLargest)
	if both := soft.MCMTU | soft.MCMTUSelector; req.Mask&both == both {
		selMTU = rec.MTUSelector
	}
	if both := soft.MCRate | soft.MCRateSelector; req.Mask&both == both {
		selRate = rec.RateSelector
	}
	var ok1, ok2 bool
	rec.MTU, ok1 = largestMTU(port.MTU, selMTU, rec.MTU)
	rec.Rate, ok2 = largestRate(port.RateGbps, selRate, rec.Rate)
	if !ok1 || !ok2 {
		return nil, soft.SAReqInvalid
	}
	rec.MTUSelector, rec.RateSelector = soft.SelectExactly, soft.SelectExactly
	if req.Mask&soft.MCHopLimit == 0 {
		rec.HopLimit = 0
	}
	rec.Scope = rec.MGID[1] & 0x0f
	mlid, ok := sa.allocMLID()
	if !ok {
		return nil, soft.SANoResources
	}
	rec.MLID = mlid
	if sa.f.sm.Override != nil {
		o := Group{rec.MGID, rec.SL, rec.TClass, rec.Flow, rec.HopLimit, rdma.MTUFromCode(rec.MTU), rec.Rate}
		sa.f.sm.Override(&o)
		rec.SL, rec.TClass, rec.Flow, rec.HopLimit, rec.MTU, rec.Rate = o.SL, o.TClass, o.FlowLabel, o.HopLimit, o.MTU.Code(), o.Rate
		if rec.MTU > port.MTU.Code() || !carries(port.RateGbps, rec.Rate) {
			sa.mlids[mlid] = false
			return nil, soft.SAReqInvalid
		}
	}
	g := &saGroup{rec: rec}
	sa.groups[rec.MGID] = g
	sa.f.record(p, Record{Kind: GroupCreated, MGID: rec.MGID})
	return g, soft.SAOk
}

// creatable reports whether a port may make a group with this MGID (osm_sa_mcmember_record.c, validate_requested_mgid).
func creatable(g rdma.GID) bool {
	signature := binary.BigEndian.Uint16(g[2:])
	flags, scope := g[1]>>4, g[1]&0x0f
	return g[0] == 0xff && flags&0x0e == 0 && !(signature == 0xa01b && scope == rdma.DefaultScope)
}

// makeMGID chooses an MGID (build_new_mgid).
func (sa *subnetAdmin) makeMGID(req *soft.SARequest) rdma.GID {
	scope := byte(rdma.DefaultScope)
	if req.Mask&soft.MCScope != 0 {
		scope = req.Rec.Scope
	}
	sa.made++
	g := rdma.GID{0: 0xff, 1: 0x10 | scope, 2: 0xa0, 3: 0x1b}
	binary.BigEndian.PutUint64(g[4:], subnetPrefix)
	binary.BigEndian.PutUint32(g[12:], sa.made)
	return g
}

// accepts reports whether a join matches the group (osm_mcmr_rcv_join_mgrp, validate_more_comp_fields,
// validate_port_caps).
func (g *saGroup) accepts(p *Port, req *soft.SARequest) bool {
	have, want := &g.rec, &req.Rec
	port := p.hca.dev.PortState(p.num)
	has := func(bit soft.MCMask) bool { return req.Mask&bit != 0 }
	switch {
	case has(soft.MCQKey) && want.QKey != have.QKey,
		has(soft.MCTClass) && want.TClass != have.TClass,
		has(soft.MCSL) && want.SL != have.SL,
		has(soft.MCFlow) && want.Flow != have.Flow,
		has(soft.MCHopLimit) && want.HopLimit != have.HopLimit,
		has(soft.MCPKey) && !have.PKey.Matches(want.PKey):
		return false
	case has(soft.MCMTUSelector) && has(soft.MCMTU) && !soft.Selected(want.MTUSelector, have.MTU, want.MTU),
		has(soft.MCRateSelector) && has(soft.MCRate) && !rateSelected(want.RateSelector, have.Rate, want.Rate):
		return false
	}
	return port.MTU.Code() >= have.MTU && carries(port.RateGbps, have.Rate)
}

// add adds state to a port's membership and returns the result.
func (g *saGroup) add(p *Port, state rdma.JoinState) rdma.JoinState {
	for i := range g.members {
		if g.members[i].port == p {
			g.members[i].state |= state
			return g.members[i].state
		}
	}
	g.members = append(g.members, saMember{p, state})
	return state
}

// inPartition reports whether the port has a P_Key of the partition.
func (p *Port) inPartition(pkey rdma.PKey) bool {
	s := p.hca.dev.PortState(p.num)
	for _, k := range s.PKeys {
		if k != 0 && k.Base() == pkey.Base() {
			return true
		}
	}
	return false
}

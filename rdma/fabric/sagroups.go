package fabric

import (
	"bytes"
	"slices"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/internal/soft"
)

// allocMLID returns the first free MLID (osm_sa_mcmember_record.c, get_new_mlid).
func (sa *subnetAdmin) allocMLID() (rdma.LID, bool) {
	for i := range sa.f.sm.MLIDs {
		if mlid := rdma.MLIDMin + rdma.LID(i); !sa.mlids[mlid] {
			sa.mlids[mlid] = true
			return mlid, true
		}
	}
	return 0, false
}

// remove removes the JoinState in req from a port's membership, which must contain it.
func (sa *subnetAdmin) remove(p *Port, req *soft.SARequest) soft.SAReply {
	g := sa.groups[req.Rec.MGID]
	if g == nil {
		return soft.SAReply{Status: soft.SAReqInvalid}
	}
	i := slices.IndexFunc(g.members, func(m saMember) bool { return m.port == p })
	state := req.Rec.JoinState
	if i < 0 || state == 0 || g.members[i].state&state != state {
		return soft.SAReply{Status: soft.SAReqInvalid}
	}
	reply := g.rec
	reply.PortGID, reply.JoinState = req.Rec.PortGID, g.members[i].state&^state
	sa.setState(g, i, g.members[i].state&^state)
	return soft.SAReply{Rec: reply}
}

// setState sets the state of a membership, and deletes the group if it has no full members of any kind.
func (sa *subnetAdmin) setState(g *saGroup, i int, state rdma.JoinState) {
	p := g.members[i].port
	if g.members[i].state = state; state == 0 {
		g.members = slices.Delete(g.members, i, i+1)
	}
	const full = rdma.StateFullMember | rdma.StateSendOnlyFullMember
	alive := slices.ContainsFunc(g.members, func(m saMember) bool { return m.state&full != 0 })
	if !alive && g != sa.broadcast {
		delete(sa.groups, g.rec.MGID)
		delete(sa.mlids, g.rec.MLID)
		sa.f.record(p, Record{Kind: GroupDeleted, MGID: g.rec.MGID})
		g.members = nil
	}
	sa.program(g)
}

// forget removes a port from all groups.
func (sa *subnetAdmin) forget(p *Port) {
	for _, g := range sa.sorted() {
		if i := slices.IndexFunc(g.members, func(m saMember) bool { return m.port == p }); i >= 0 {
			sa.setState(g, i, 0)
		}
	}
}

// sorted returns the groups by MGID, so that runs can be repeated.
func (sa *subnetAdmin) sorted() []*saGroup {
	groups := make([]*saGroup, 0, len(sa.groups))
	for _, g := range sa.groups {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b *saGroup) int { return bytes.Compare(a.rec.MGID[:], b.rec.MGID[:]) })
	return groups
}

// program configures the switches. All members are in the tree, including send-only members (osm_mcast_mgr.c).
func (sa *subnetAdmin) program(g *saGroup) {
	ports := make([]*Port, 0, len(g.members))
	for _, m := range g.members {
		ports = append(ports, m.port)
	}
	sa.f.program(groupKey{mlid: g.rec.MLID}, ports)
}

// SetSM changes the behavior of the subnet manager. Groups stay.
func (f *Fabric) SetSM(sm SM) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if sm.MLIDs == 0 {
		sm.MLIDs = int(rdma.MLIDMax-rdma.MLIDMin) + 1
	}
	f.sm = sm
}

// RestartSM replaces the subnet manager by one without groups, which asks all ports to register again.
func (f *Fabric) RestartSM() {
	f.mu.Lock()
	for _, g := range f.sa.sorted() {
		if g == f.sa.broadcast {
			continue
		}
		delete(f.sa.groups, g.rec.MGID)
		delete(f.sa.mlids, g.rec.MLID)
		g.members = nil
		f.sa.program(g)
	}
	ports := slices.Clone(f.ports)
	f.mu.Unlock()
	for _, p := range ports {
		p.Reregister()
	}
}

// Reregister asks the port's host to register its memberships again, although the subnet manager still has them.
func (p *Port) Reregister() { p.hca.dev.PortEvent(rdma.AsyncClientReregist, p.num) }

// Members returns the ports in a group with their JoinStates, from the subnet administrator; nil if there is no such
// group.
func (f *Fabric) Members(mgid rdma.GID) map[*Port]rdma.JoinState {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.sa.groups[mgid]
	if g == nil {
		return nil
	}
	members := make(map[*Port]rdma.JoinState, len(g.members))
	for _, m := range g.members {
		members[m.port] = m.state
	}
	return members
}

// Record returns the subnet administrator's record of a group: its values and its MLID; false if the group does not
// exist.
func (f *Fabric) Record(mgid rdma.GID) (Group, rdma.LID, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.sa.groups[mgid]
	if g == nil {
		return Group{}, 0, false
	}
	r := &g.rec
	return Group{r.MGID, r.SL, r.TClass, r.Flow, r.HopLimit, rdma.MTUFromCode(r.MTU), r.Rate}, r.MLID, true
}

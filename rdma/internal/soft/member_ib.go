package soft

import (
	"cmp"
	"slices"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
)

// SATimeout is the time to wait for an answer of the subnet administrator (kernel core/multicast.c, send_join).
// leaveTries is the number of attempts to send a leave.
const (
	SATimeout  = 3 * time.Second
	leaveTries = 3
)

// ibGroup is a port's membership in a group, shared by all ids. It sends one request at a time to the subnet
// administrator, and only for a JoinState that the port does not have yet, or that no id needs any more (kernel
// core/multicast.c). Host.cm guards it.
type ibGroup struct {
	p            *port
	rec          MCMember // the administrator's record, valid if joined is not 0
	joined       rdma.JoinState
	members      []*ibShare // those that have joined
	pendingJoins []*ibShare // if busy, the request of the first is pending
	busy         bool
	listed       bool // it is in port.groups, with key rec.MGID
	pkeyIndex    int
}

// ibShare is a membership's share in the group.
type ibShare struct {
	g      *ibGroup
	req    SARequest
	answer func(syscall.Errno, MCMember)
	gone   bool
}

// joinGroup begins a join. answer is called later with cm held: once for the join, and again if the membership is lost.
func (p *port) joinGroup(req SARequest, answer func(syscall.Errno, MCMember)) *ibShare {
	mgid := req.Rec.MGID
	g := p.groups[mgid]
	if g == nil {
		g = &ibGroup{p: p, rec: MCMember{MGID: mgid}, pkeyIndex: -1}
		if !mgid.IsZero() { // otherwise each join is for another group
			g.listed = true
			p.groups[mgid] = g
		}
	}
	s := &ibShare{g: g, req: req, answer: answer}
	g.pendingJoins = append(g.pendingJoins, s)
	g.soon()
	return s
}

func (s *ibShare) release() {
	g := s.g
	s.gone = true
	if i := slices.Index(g.members, s); i >= 0 {
		g.members = slices.Delete(g.members, i, i+1)
	}
	// A pending request is not cancelled: if it succeeds, the port leaves.
	if i := slices.Index(g.pendingJoins, s); i > 0 || i == 0 && !g.busy {
		g.pendingJoins = slices.Delete(g.pendingJoins, i, i+1)
	}
	g.soon()
}

// soon schedules work in the work queue.
func (g *ibGroup) soon() {
	h := g.p.dev.host
	g.p.dev.backend.After(0, func() {
		h.cm.Lock()
		defer h.cm.Unlock()
		g.work()
	})
}

// work sends the next request for the group, if any. The caller holds cm.
func (g *ibGroup) work() {
	for !g.busy && len(g.pendingJoins) > 0 && !g.p.dev.removed.Load() {
		s := g.pendingJoins[0]
		state := s.req.Rec.JoinState
		if g.joined&state != state {
			g.request(s.req, g.joinAnswered)
			return
		}
		g.pendingJoins = g.pendingJoins[1:]
		if g.fits(&s.req) {
			g.members = append(g.members, s)
			s.answer(0, g.rec)
		} else {
			s.answer(syscall.EINVAL, MCMember{})
		}
	}
	if g.busy || g.p.dev.removed.Load() {
		return
	}
	var needed rdma.JoinState
	for _, s := range g.members {
		needed |= s.req.Rec.JoinState
	}
	if excess := g.joined &^ needed; excess != 0 {
		g.leave(excess, leaveTries)
		return
	}
	if g.listed && g.joined == 0 && len(g.members) == 0 {
		delete(g.p.groups, g.rec.MGID)
		g.listed = false
	}
}

// request sends a request. then is called with the answer, or with false if there was none; cm is held.
func (g *ibGroup) request(req SARequest, then func(SAReply, bool)) {
	g.busy = true
	h := g.p.dev.host
	ended := false
	var cancel func()
	end := func(r SAReply, ok bool) {
		h.cm.Lock()
		defer h.cm.Unlock()
		if ended {
			return
		}
		ended, g.busy = true, false
		cancel()
		then(r, ok)
		g.work()
	}
	cancel = g.p.dev.backend.After(SATimeout, func() { end(SAReply{}, false) })
	g.p.dev.backend.SA(g.p.num, req, func(r SAReply) { end(r, true) })
}

// joinAnswered completes the request of the first pending join.
func (g *ibGroup) joinAnswered(r SAReply, ok bool) {
	s := g.pendingJoins[0]
	g.pendingJoins = g.pendingJoins[1:]
	if !ok || r.Status != SAOk {
		errno := syscall.EINVAL // for every status (kernel core/sa_query.c, recv_handler)
		if !ok {
			errno = syscall.ETIMEDOUT
		}
		s.answer(errno, MCMember{}) // ids that have left get no event (membership.deliver)
		return
	}
	g.rec = r.Rec
	g.joined |= s.req.Rec.JoinState
	g.pkeyIndex = g.p.state.Load().pkeyIndexOf(r.Rec.PKey)
	if !g.listed && g.p.groups[r.Rec.MGID] == nil {
		g.listed = true
		g.p.groups[r.Rec.MGID] = g
	}
	if !s.gone { // otherwise work finds that it is not needed
		g.members = append(g.members, s)
		s.answer(0, g.rec)
	}
}

// leave removes state from the port's membership.
func (g *ibGroup) leave(state rdma.JoinState, tries int) {
	rec := g.rec
	rec.JoinState = state
	g.request(SARequest{Delete: true, Mask: MCMGID | MCPortGID | MCJoinState, Rec: rec}, func(_ SAReply, ok bool) {
		if !ok && tries > 1 {
			g.leave(state, tries-1)
			return
		}
		g.joined &^= state
	})
}

// fits reports whether the group has the values requested by another local member (kernel core/multicast.c, cmp_rec).
func (g *ibGroup) fits(req *SARequest) bool {
	have, want, mask := &g.rec, &req.Rec, req.Mask
	differ := func(bit MCMask, same bool) bool { return mask&bit != 0 && !same }
	return !(differ(MCPortGID, have.PortGID == want.PortGID) ||
		differ(MCQKey, have.QKey == want.QKey) ||
		differ(MCMLID, have.MLID == want.MLID) ||
		mask&MCMTUSelector != 0 && differ(MCMTU, Selected(want.MTUSelector, have.MTU, want.MTU)) ||
		differ(MCTClass, have.TClass == want.TClass) ||
		differ(MCPKey, have.PKey == want.PKey) ||
		mask&MCRateSelector != 0 && differ(MCRate, Selected(want.RateSelector, have.Rate, want.Rate)) ||
		differ(MCSL, have.SL == want.SL) ||
		differ(MCFlow, have.Flow == want.Flow) ||
		differ(MCHopLimit, have.HopLimit == want.HopLimit) ||
		differ(MCScope, have.Scope == want.Scope))
}

// Selectors of MTU and rate in an MCMemberRecord (IBTA 15.2.5.17).
const (
	SelectGreater = 0
	SelectLess    = 1
	SelectExactly = 2
	SelectLargest = 3 // the largest available one, whatever the value is
)

// Selected reports whether a value satisfies a selector.
func Selected[T cmp.Ordered](selector uint8, have, want T) bool {
	switch selector {
	case SelectGreater:
		return have > want
	case SelectLess:
		return have < want
	case SelectExactly:
		return have == want
	}
	return true
}

// lose reports the loss of the membership to all members. They keep theirs until they leave, but the port is no longer
// a member.
func (g *ibGroup) lose() {
	lost := g.members
	g.members, g.joined = nil, 0
	for _, s := range lost {
		s.answer(syscall.ENETRESET, MCMember{})
	}
}

package ud

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/fanfaremq/fanfare/internal/report"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
	"github.com/fanfaremq/fanfare/transport/internal/events"
	"github.com/fanfaremq/fanfare/transport/internal/tally"
)

// phase is the state of a membership.
type phase uint8

const (
	absent  phase = iota
	joining       // the connection manager has the request
	in
	leaving // waits for the leave to complete
	resting // waits for retryAt
)

// Attempts to join.
const (
	// firstTries is the number of attempts for a first join without an answer: each waits three seconds in the kernel
	// (core/multicast.c). A refusal is final.
	firstTries = 3
	// A lost membership is retried immediately, apart from spacing, then after minBackoff, and after twice as long each
	// time up to maxBackoff, without limit. Half of each delay is random. If it is lost again within lastedFor the
	// delays continue to grow.
	minBackoff = 10 * time.Millisecond
	maxBackoff = time.Second
	// spacing is the average time between join requests for lost memberships of a transport: often all memberships of all
	// hosts are lost together, and one subnet administrator serves the subnet.
	spacing = 2 * time.Millisecond
)

// pollLeaves is how often Wait checks whether a leave is complete, because no event reports it.
const pollLeaves = 200 * time.Microsecond

// lowBits are the bits of an MGID that differ between the groups of a range: it contains 28 bits of an IPv4 group
// (rdma.MGIDForIB).
const lowBits = 1<<28 - 1

// memberships are the memberships of all groups, as receiver and as sender. Loop only.
type memberships struct {
	addrs  []rdma.Addr // of the groups
	rx, tx rdma.ID     // for receivers and for senders
	pd     rdma.PD
	port   *portWatch
	link   rdma.LinkLayer
	open   *senders
	send   *sendQueue
	counts *tally.Received
	clock  func() time.Duration
	log    *slog.Logger

	receivers []*member // by group; nil: never joined
	senders   []*member // by group; nil: never a sender
	count     int       // number of non-nil members in both lists
	todo      []*member // members with pending work for manage
	events    events.Queue
	base      uint32        // the lower bits of the first group's MGID
	fallbacks atomic.Uint64 // memberships of senders for which send-only was refused
	// chance randomizes delays, so that hosts do not act at the same time. Its seed is the port and the queue pair, so
	// that hosts differ and runs in virtual time are repeatable.
	chance *rand.Rand
}

// member is the transport's membership of a group in one role. Loop only.
//
//	absent ─► joining ─► in ─► leaving ─► absent
//	              └─► leaving ─► resting ─► joining      (an error, or lost)
//
// The connection manager keeps a membership after an error until it is left, so every further attempt begins with a
// leave.
type member struct {
	all   *memberships
	group int
	role  transport.Role
	id    rdma.ID

	phase     phase
	want      bool
	full      bool // the next attempt is for full membership: send-only was refused
	requested rdma.JoinFlags
	lost      bool          // it was a member, and joins again
	tries     int           // failed or short-lived attempts since it last lasted for lastedFor
	since     time.Duration // when it became a member
	cause     string        // why it is not a member, as last reported
	retryAt   time.Duration
	leave     rdma.Pending
	silent    bool     // do not report the end of the leave
	listed    bool     // in memberships.todo
	mgid      rdma.GID // of a receiver; zero while packets are not for it
}

func lowWord(a rdma.Addr) uint32 {
	b := a.IP.As16()
	return binary.BigEndian.Uint32(b[12:])
}

// find finds the group of a packet; false if it is not joined, as for a packet that waited while the group was left.
func (g *memberships) find(mgid *rdma.GID) (int, bool) {
	i := int((binary.BigEndian.Uint32(mgid[12:]) - g.base) & lowBits)
	if i >= len(g.receivers) {
		return 0, false
	}
	m := g.receivers[i]
	return i, m != nil && m.mgid == *mgid
}

func (g *memberships) member(list []*member, group int, role transport.Role, id rdma.ID) *member {
	if list[group] == nil {
		g.count++
		list[group] = &member{all: g, group: group, role: role, id: id}
	}
	return list[group]
}

// each yields all memberships.
func (g *memberships) each(yield func(*member) bool) {
	for _, list := range [][]*member{g.receivers, g.senders} {
		for _, m := range list {
			if m != nil && !yield(m) {
				return
			}
		}
	}
}

// join begins to join a group as receiver.
func (g *memberships) join(group int) {
	g.member(g.receivers, group, transport.RoleReceiver, g.rx).set(true)
}

// leave begins to leave a group as receiver.
func (g *memberships) leave(group int) {
	if m := g.receivers[group]; m != nil {
		m.set(false)
	}
}

// pending reports whether manage has something to do.
func (g *memberships) pending() bool { return g.open.dirty.Load() || len(g.todo) > 0 }

// manage continues pending work.
func (g *memberships) manage() {
	if g.open.dirty.Load() {
		groups, wanted := g.open.changes()
		for i, group := range groups {
			g.member(g.senders, group, transport.RoleSender, g.tx).set(wanted[i])
		}
	}
	list := g.todo
	g.todo = nil
	for _, m := range list {
		m.listed = false
	}
	for _, m := range list {
		m.step()
	}
}

// next is the time of the next step of a membership.
func (g *memberships) next(now time.Duration) time.Duration {
	if len(g.todo) == 0 {
		return never
	}
	next := now + maxBackoff
	for _, m := range g.todo {
		if m.phase == leaving {
			return now + pollLeaves
		}
		next = min(next, m.retryAt)
	}
	return next
}

// portChanged handles a change of portWatch.away. While the port is unusable all memberships are lost, and none is
// retried.
func (g *memberships) portChanged() {
	away, now := g.port.away, g.clock()
	for m := range g.each {
		switch {
		case away != nil && m.phase == in:
			m.failed(away)
		case away == nil && m.want && (m.phase == resting || m.phase == leaving):
			if m.tries, m.retryAt = 0, now; g.link != rdma.LinkLayerEthernet {
				m.retryAt += g.spread() // one subnet administrator serves all
			}
		}
	}
}

// spread is a random delay, so that not all memberships are retried at once.
func (g *memberships) spread() time.Duration {
	return time.Duration(g.chance.Int64N(int64(spacing) * int64(g.count)))
}

// end begins to leave all groups, and returns the leaves.
func (g *memberships) end() (leaves []rdma.Pending) {
	g.todo = nil
	for m := range g.each {
		switch m.phase {
		case leaving:
			if m.leave != nil {
				leaves = append(leaves, m.leave)
			}
		case joining, in:
			if p, err := m.id.BeginLeave(g.addrs[m.group]); err == nil {
				leaves = append(leaves, p)
			}
		}
	}
	return leaves
}

// set begins to join or to leave.
func (m *member) set(want bool) {
	if m.want == want {
		return
	}
	m.want = want
	if want && m.role == transport.RoleSender {
		m.all.open.forgetFault(m.group)
	}
	m.tries = 0
	m.step()
}

// step does the work that is possible now. When it returns, a member with pending work is on the list.
func (m *member) step() {
	switch {
	case m.phase == leaving:
		if m.leave != nil && !m.leave.Done() {
			break
		}
		m.leave = nil
		if m.phase = absent; m.want {
			m.phase = resting
		} else if !m.silent {
			m.left()
		}
		m.silent = false
		m.step()
		return
	case m.want && (m.phase == absent || m.phase == resting && m.all.clock() >= m.retryAt):
		if m.all.port.away == nil {
			m.begin()
			return
		}
		m.phase, m.retryAt = resting, m.all.clock()+maxBackoff // portChanged retries it as soon as the port is back
	case !m.want && m.phase == resting:
		m.phase = absent
		m.left()
	case !m.want && (m.phase == joining || m.phase == in):
		m.quit()
		return
	}
	if (m.phase == leaving || m.phase == resting) && !m.listed {
		m.listed = true
		m.all.todo = append(m.all.todo, m)
	}
}

// emit posts an event, with the reason if the membership failed or is lost.
func (m *member) emit(state transport.Membership, err error) {
	if m.cause = ""; err != nil {
		m.cause = err.Error()
	}
	m.all.events.Post(transport.Event{Group: m.group, Role: m.role, State: state, Err: err})
}

// left handles the end of a leave.
func (m *member) left() {
	m.lost, m.full = false, false
	if m.role == transport.RoleSender {
		m.all.open.routes[m.group].Store(nil)
	}
	m.emit(transport.Left, nil)
}

// begin requests the join from the connection manager. Publishers join as send-only full members, so that nothing of
// the group is delivered to them (rdma_join_multicast_ex(3)). If the subnet manager does not support that they fall
// back to full membership, without attaching a queue pair.
func (m *member) begin() {
	m.requested = rdma.JoinFullMember
	if m.role == transport.RoleSender && !m.full {
		m.requested = rdma.JoinSendOnlyFullMember
	}
	m.phase = joining
	err := m.id.JoinMulticastEx(rdma.JoinAttr{
		CompMask: rdma.JoinMaskAddress | rdma.JoinMaskFlags, Flags: m.requested, Addr: m.all.addrs[m.group],
	}, m)
	if err != nil {
		m.phase = absent // no request was made, so there is nothing to leave
		m.refused(err, false)
	}
}

// joined handles the event of success.
func (m *member) joined(ev *rdma.Event) {
	g := m.all
	if g.port.away != nil {
		m.backOff()
		m.quit()
		return
	}
	if m.role == transport.RoleSender {
		ah, err := g.pd.CreateAH(ev.UD.AHAttr)
		if err != nil {
			m.refused(fmt.Errorf("address handle: %w", err), false)
			return
		}
		g.open.routes[m.group].Store(&route{ah: ah, qkey: ev.UD.QKey})
		if m.full && g.fallbacks.Add(1) == 1 {
			report.SendOnlyRefused.Log(g.log, "group", g.addrs[m.group])
		}
	} else {
		m.mgid = ev.UD.AHAttr.GRH.DGID
		g.counts.Joins.Add(1)
	}
	m.phase, m.lost, m.since = in, false, g.clock()
	m.emit(transport.Joined, nil)
}

// failed handles an error event: a failed join, or later the loss of the membership.
func (m *member) failed(err error) {
	if m.phase == joining {
		m.refused(err, true)
	}
	if m.phase != in {
		return
	}
	m.lost, m.full = true, false
	if m.all.clock()-m.since >= lastedFor {
		m.tries = 0
	}
	m.backOff()
	m.all.counts.Lost.Add(1)
	m.emit(transport.Lost, fmt.Errorf("ud: membership of %v: %w", m.all.addrs[m.group], err))
	m.quit()
}

// backOff decides when to retry a lost membership.
func (m *member) backOff() {
	wait := m.all.spread()
	if m.tries > 0 {
		delay := min(minBackoff<<min(m.tries-1, 10), maxBackoff)
		wait += delay/2 + time.Duration(m.all.chance.Int64N(int64(delay/2)))
	}
	m.tries++
	m.retryAt = m.all.clock() + wait
}

// refused handles a failed attempt, whether the fabric refused it (answer) or it failed locally.
func (m *member) refused(err error, answer bool) {
	g, now := m.all, m.all.clock()
	switch {
	case m.requested == rdma.JoinSendOnlyFullMember && noSendOnly(err, answer):
		m.full = true
		m.retryAt = now
	case !m.lost && g.port.away != nil: // not an answer of the fabric
		m.full = false
		m.backOff()
	case m.lost:
		m.full = false
		m.backOff()
		g.counts.JoinsFailed.Add(1)
		if err = m.joinError(err, answer); err.Error() != m.cause {
			m.emit(transport.Lost, err)
		}
	case unanswered(err) && m.tries+1 < firstTries:
		m.full = false
		m.tries++
		m.retryAt = now + minBackoff
	default:
		m.fail(err, answer)
		return
	}
	if m.phase == joining {
		m.quit()
		return
	}
	m.phase = resting
	m.step()
}

// fail gives up the membership, and reports it as failed.
func (m *member) fail(err error, answer bool) {
	err = m.joinError(err, answer)
	m.all.counts.JoinsFailed.Add(1)
	m.want, m.full = false, false
	if m.phase == joining {
		m.silent = true
		m.quit()
	}
	if m.role == transport.RoleSender {
		m.all.open.routes[m.group].Store(&route{err: err})
	}
	m.emit(transport.Failed, err)
}

// joinError is the error of an attempt to join. answer: the fabric refused it.
func (m *member) joinError(err error, answer bool) error {
	return fmt.Errorf("ud: join %v as %v: %w", m.all.addrs[m.group], m.role, explain(err, answer, m.all.link))
}

// quit begins to leave.
func (m *member) quit() {
	g := m.all
	m.mgid = rdma.GID{}
	if m.role == transport.RoleSender {
		g.open.detach(m.group, g.send)
	}
	m.phase = leaving
	m.leave, _ = m.id.BeginLeave(g.addrs[m.group]) // nil if the connection manager does not know the membership
	m.step()
}

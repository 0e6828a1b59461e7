package ud

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/transport"
)

// phase is the state of a membership.
type phase uint8

const (
	out     phase = iota
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

// member is the transport's membership of a group in one role. Loop only.
//
//	out ─► joining ─► in ─► leaving ─► out
//	           └─► leaving ─► resting ─► joining      (an error, or lost)
//
// The connection manager keeps a membership after an error until it is left, so every further attempt begins with a
// leave.
type member struct {
	t     *Transport
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
	listed    bool     // on Transport.todo
	mgid      rdma.GID // of a receiver; zero while packets are not for it
}

func (t *Transport) member(list []*member, group int, role transport.Role, id rdma.ID) *member {
	if list[group] == nil {
		t.members.count++
		list[group] = &member{t: t, group: group, role: role, id: id}
	}
	return list[group]
}

// Join implements transport.Transport.
func (t *Transport) Join(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	t.joined.Store(true)
	t.member(t.members.receivers, group, transport.RoleReceiver, t.verbs.rx).set(true)
	return nil
}

// Leave implements transport.Transport.
func (t *Transport) Leave(group int) error {
	if err := t.check(group); err != nil {
		return err
	}
	if m := t.members.receivers[group]; m != nil {
		m.set(false)
	}
	return nil
}

// manage continues pending work.
func (t *Transport) manage() {
	if t.senders.dirty.Load() {
		t.senders.mu.Lock()
		changed := t.senders.changed
		t.senders.changed = nil
		t.senders.dirty.Store(false)
		wanted := make([]bool, len(changed))
		for i, g := range changed {
			wanted[i] = t.senders.inGroup[g] > 0
		}
		t.senders.mu.Unlock()
		for i, g := range changed {
			t.member(t.members.senders, g, transport.RoleSender, t.verbs.tx).set(wanted[i])
		}
	}
	list := t.members.todo
	t.members.todo = nil
	for _, m := range list {
		m.listed = false
	}
	for _, m := range list {
		m.step()
	}
}

// nextTry bounds how long Wait may sleep because of memberships; false: no bound.
func (t *Transport) nextTry() (time.Duration, bool) {
	if len(t.members.todo) == 0 {
		return 0, false
	}
	wait := maxBackoff
	for _, m := range t.members.todo {
		if m.phase == leaving {
			return pollLeaves, true
		}
		wait = min(wait, m.retryAt-t.cfg.Clock())
	}
	return max(0, wait), true
}

// pollLeaves is how often Wait checks whether a leave is complete, because no event reports it.
const pollLeaves = 200 * time.Microsecond

// set begins to join or to leave.
func (m *member) set(want bool) {
	if m.want == want {
		return
	}
	m.want = want
	if want && m.role == transport.RoleSender {
		m.t.forgetFault(m.group)
	}
	m.tries = 0
	m.step()
}

// step does the work that is possible now. When it returns, a member with pending work is on the list.
func (m *member) step() {
	switch {
	case m.phase == leaving:
		if !m.leave.Done() {
			break
		}
		m.leave = nil
		if m.phase = out; m.want {
			m.phase = resting
		} else if !m.silent {
			m.left()
		}
		m.silent = false
		m.step()
		return
	case m.want && (m.phase == out || m.phase == resting && m.t.cfg.Clock() >= m.retryAt):
		if m.t.port.away == nil {
			m.begin()
			return
		}
		m.phase, m.retryAt = resting, m.t.cfg.Clock()+maxBackoff // watchPort retries it as soon as the port is back
	case !m.want && m.phase == resting:
		m.phase = out
		m.left()
	case !m.want && (m.phase == joining || m.phase == in):
		m.quit()
		return
	}
	if (m.phase == leaving || m.phase == resting) && !m.listed {
		m.listed = true
		m.t.members.todo = append(m.t.members.todo, m)
	}
}

// left handles the end of a leave.
func (m *member) left() {
	m.lost, m.full = false, false
	if m.role == transport.RoleSender {
		m.t.routes[m.group].Store(nil)
	}
	m.t.events.Post(transport.Event{Group: m.group, Role: m.role, State: transport.Left})
}

// begin requests the join from the connection manager.
func (m *member) begin() {
	m.requested = m.joinFlags()
	m.phase = joining
	err := m.id.JoinMulticastEx(rdma.JoinAttr{
		CompMask: rdma.JoinMaskAddress | rdma.JoinMaskFlags, Flags: m.requested, Addr: m.t.addrs[m.group],
	}, m)
	if err != nil {
		m.phase = out // no request was made, so there is nothing to leave
		m.refused(err, false)
	}
}

// joined handles the event of success.
func (m *member) joined(ev *rdma.Event) {
	t := m.t
	if t.port.away != nil {
		m.backOff()
		m.quit()
		return
	}
	if m.role == transport.RoleSender {
		ah, err := t.verbs.pd.CreateAH(ev.UD.AHAttr)
		if err != nil {
			m.refused(fmt.Errorf("address handle: %w", err), false)
			return
		}
		t.routes[m.group].Store(&route{ah: ah, qkey: ev.UD.QKey})
		if m.full {
			t.reportFallback(m.group)
		}
	} else {
		m.mgid = ev.UD.AHAttr.GRH.DGID
		t.counts.received.Joins.Add(1)
	}
	m.phase, m.lost, m.since, m.cause = in, false, t.cfg.Clock(), ""
	t.events.Post(transport.Event{Group: m.group, Role: m.role, State: transport.Joined})
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
	if m.t.cfg.Clock()-m.since >= lastedFor {
		m.tries = 0
	}
	m.backOff()
	m.t.counts.received.Lost.Add(1)
	m.reportLost(fmt.Errorf("ud: membership of %v: %w", m.t.addrs[m.group], err))
	m.quit()
}

func (m *member) reportLost(err error) {
	m.cause = err.Error()
	m.t.events.Post(transport.Event{Group: m.group, Role: m.role, State: transport.Lost, Err: err})
}

// backOff decides when to retry a lost membership.
func (m *member) backOff() {
	t := m.t
	wait := t.spread()
	if m.tries > 0 {
		delay := min(minBackoff<<min(m.tries-1, 10), maxBackoff)
		wait += delay/2 + time.Duration(t.members.chance.Int64N(int64(delay/2)))
	}
	m.tries++
	m.retryAt = t.cfg.Clock() + wait
}

// spread is a random delay, so that not all memberships are retried at once.
func (t *Transport) spread() time.Duration {
	return time.Duration(t.members.chance.Int64N(int64(spacing) * int64(t.members.count)))
}

// refused handles a failed attempt, whether the fabric refused it (answer) or it failed locally.
func (m *member) refused(err error, answer bool) {
	t := m.t
	now := t.cfg.Clock()
	switch {
	case m.requested == rdma.JoinSendOnlyFullMember && noSendOnly(err, answer):
		m.full = true
		m.retryAt = now
	case !m.lost && t.port.away != nil: // not an answer of the fabric
		m.full = false
		m.backOff()
	case m.lost:
		m.full = false
		m.backOff()
		t.counts.received.JoinsFailed.Add(1)
		if err = m.joinError(err, answer); err.Error() != m.cause {
			m.reportLost(err)
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
	t := m.t
	err = m.joinError(err, answer)
	t.counts.received.JoinsFailed.Add(1)
	m.want, m.full = false, false
	if m.phase == joining {
		m.silent = true
		m.quit()
	}
	if m.role == transport.RoleSender {
		t.routes[m.group].Store(&route{err: err})
	}
	t.events.Post(transport.Event{Group: m.group, Role: m.role, State: transport.Failed, Err: err})
}

// quit begins to leave.
func (m *member) quit() {
	t := m.t
	m.mgid = rdma.GID{}
	if m.role == transport.RoleSender {
		if r := t.routes[m.group].Swap(nil); r != nil && r.ah != nil {
			t.sq.mu.Lock()
			t.sq.closeLater(r.ah)
			t.sq.mu.Unlock()
		}
	}
	p, err := m.id.BeginLeave(t.addrs[m.group])
	if err != nil {
		// The connection manager does not know the membership, so it is left.
		p = ended{}
	}
	m.phase, m.leave = leaving, p
	m.step()
}

// retrieve handles the events of the connection manager. Retrieving an event of a join attaches the queue pair.
func (t *Transport) retrieve() {
	for {
		ev, err := t.verbs.ch.TryGetEvent()
		if err != nil {
			if !errors.Is(err, syscall.EAGAIN) {
				t.fail(fmt.Errorf("connection manager: %w", err))
			}
			return
		}
		// First, because leaving waits for it. The event stays valid.
		_ = ev.Ack()
		m, _ := ev.Context.(*member)
		switch {
		case ev.Type == rdma.EventDeviceRemoval:
			t.fail(fmt.Errorf("device of %v: %w", t.local, ev.Err()))
		case m == nil: // an event of the ids themselves: ignored
		case t.closing.Load(): // all groups are being left
		case ev.Type == rdma.EventMulticastJoin:
			m.joined(ev)
		case ev.Type == rdma.EventMulticastError:
			m.failed(ev.Err())
		}
	}
}

// ended is an rdma.Pending that is done.
type ended struct{}

func (ended) Done() bool                     { return true }
func (ended) Wait(ctx context.Context) error { return nil }
